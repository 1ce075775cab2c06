"""Realised against target switching rates."""

import numpy as np
import pytest

from sidequest.figures.rates import draw_rates, rates_show, read_rates
from tests.figures import made_up
from tests.figures.made_up import EPISODES, GAMES, STEPS, Cell, late_p_of
from tests.figures.seen import legend_of, panels_of

FIXED, ADAPTIVE = "XU-intra(10,informed,0.01,G)", "XU-intra(10,informed,p*,X)"


def test_a_run_has_a_rate_for_each_target(study_of):
    records = study_of(Cell(FIXED, GAMES[0], 0, 1.0), Cell(ADAPTIVE, GAMES[0], 0, 1.0))
    rates = read_rates(records.runs)
    assert [rate.target for rate in rates] == [0.01, 0.0001, 0.001, 0.01, 0.1]
    for rate in rates:
        assert rate.realised == pytest.approx(1.05 * rate.target)
    exploit_steps = EPISODES * STEPS * (1 - late_p_of(FIXED))
    assert rates[0].switches == pytest.approx(0.0105 * exploit_steps)


def test_episodes_count_by_their_exploit_steps(study_of, monkeypatch):
    """0.02 of 100 exploit steps and 0.01 of 300: 5 of 400 switch."""
    made = made_up.episode_rows(made_up.parse(FIXED))[:2]
    made[0] |= {"realised_rate": 0.02, "length": 200, "p_X": 0.5}
    made[1] |= {"realised_rate": 0.01, "length": 300, "p_X": 0.0}
    monkeypatch.setattr(made_up, "episode_rows", lambda variant: made)
    (rate,) = read_rates(study_of(Cell(FIXED, GAMES[0], 0, 1.0)).runs)
    assert rate.realised == pytest.approx(5 / 400) and rate.switches == pytest.approx(5)


def test_marks_lie_at_realised_over_target(records):
    figure = draw_rates(records)
    panels = panels_of(figure)
    assert list(panels) == list(GAMES)
    marks = [line for line in panels[GAMES[0]].lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose([mark.get_ydata()[0] for mark in marks], 1.05)
    triggers = ["coin", "value promise", "action mismatch", "value variance"]
    assert legend_of(figure) == triggers
    said = rates_show(records)
    assert "value promise: 20 of 20 cases within 10%" in said


def test_variants_that_count_steps_have_no_rate(study_of):
    records = study_of(Cell("XU-intra(10,blind,100,G)", GAMES[0], 0, 1.0))
    assert read_rates(records.runs) == [] and draw_rates(records) is None
    assert "switching rate" in rates_show(records)
