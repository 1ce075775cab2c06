"""Figure 6."""

import numpy as np
from matplotlib.colors import to_rgba

from sidequest.figures import style as look
from sidequest.figures.starts import draw_starts, starts_show
from tests.figures.made_up import GAMES, Cell
from tests.figures.seen import legend_of, notes_of, panels_of

G, X = "XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"


def heights(axes):
    return [bar.get_height() for bar in axes.patches]


def test_the_better_start_is_one(study_of):
    records = study_of(
        Cell(G, "game:a", 0, 10.0),
        Cell(G, "game:a", 1, 20.0),
        Cell(X, "game:a", 0, 30.0),
        Cell(G, "game:b", 0, 8.0),
        Cell(X, "game:b", 0, 2.0),
    )
    figure = draw_starts(records)
    (panel,) = panels_of(figure).values()
    assert panel.get_title() == "XU-intra(=,blind,n*,·)"
    np.testing.assert_allclose(heights(panel), [0.5, 1.0, 1.0, 0.25])
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["game:a", "game:b"]
    exploit, explore = panel.patches[:2]
    assert exploit.get_facecolor() == to_rgba(look.BLUE) and exploit.get_hatch() is None
    assert explore.get_facecolor() == to_rgba(look.MAGENTA) and explore.get_hatch() == "///"
    (span,) = panel.collections
    np.testing.assert_allclose(span.get_segments()[0][:, 1], [10 / 30, 20 / 30])
    assert legend_of(figure) == ["starts in exploit mode (G)", "starts in explore mode (X)"]
    said = starts_show(records)
    assert "higher mean in 1 of 2 games; seeds do not overlap in 2" in said


def test_scores_below_zero_have_no_share_and_are_named(study_of):
    cells = [Cell(G, "pong", 0, -20.0), Cell(X, "pong", 0, -19.0)]
    assert draw_starts(study_of(*cells)) is None
    cells += [Cell(G, "game:a", 0, 1.0), Cell(X, "game:a", 0, 2.0)]
    assert "no score is above 0: pong" in notes_of(draw_starts(study_of(*cells)))


def test_each_mode_has_its_panel(records):
    assert list(panels_of(draw_starts(records))) == [
        "XU-intra(=,blind,n*,·)",
        "XI-intra(=,blind,n*,·)",
    ]


def test_without_a_partner_there_is_nothing_to_draw(study_of):
    alone = study_of(Cell(G, GAMES[0], 0, 1.0))
    assert draw_starts(alone) is None and "starting mode alone" in starts_show(alone)
