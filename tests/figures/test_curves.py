"""Learning curves: figures 3, 8, 10, 15 and 16."""

import numpy as np
import polars as pl
import pytest

from sidequest.figures import style
from sidequest.figures.curves import (
    _read_curves,
    aggregate,
    draw_curves,
    explore_modes,
    informed_triggers,
    learning_curves,
    off_policy,
)
from sidequest.figures.data import read_records
from sidequest.records import Recorder
from tests.figures.made_up import GAMES, SETTINGS, Cell, score_of
from tests.figures.seen import labelled, legend_of, notes_of, panels_of

STEP, INTRA = "XU-step-level-0.01", "XU-intra(10,informed,p*,X)"
INTRINSIC = "XI-intra(10,informed,p*,X)"
STYLES = {"step": {"color": "#ff0000", "marker": "o"}, "intra": {"color": "#0000ff"}}


def make_run(folder, variant, seed, evaluations):
    """A run whose evaluations are {frames: returns}."""
    recorder = Recorder(folder, {"variant": variant, "game": "game:one", "seed": seed})
    for frames, returns in evaluations.items():
        rows = [{"frames": frames, "return": one, "length": 1} for one in returns]
        recorder.write("evaluations", rows)
    return recorder


def read_lines(folder):
    """Records with a line for each granularity."""
    records = read_records(folder)
    line = (
        pl.when(pl.col("variant") == STEP).then(pl.lit("step")).otherwise(pl.lit("intra"))
    )
    return records, records.runs.with_columns(line=line)


@pytest.fixture
def lines(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e6: [1, 3], 2e6: [4], 3e6: [6]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1e6: [6], 2e6: [10]}).close()  # still training
    make_run(tmp_path / "c", INTRA, 0, {}).close()  # not evaluated yet
    return read_lines(tmp_path)


def test_a_point_is_the_mean_of_its_episodes(lines):
    records, runs = lines
    curve = _read_curves(records, runs[:1])
    assert curve["frames"].to_list() == [1e6, 2e6, 3e6]
    assert curve["return"].to_list() == [2.0, 4.0, 6.0]
    assert _read_curves(records, runs[2:]).is_empty()


def test_a_line_is_the_mean_over_seeds_as_far_as_all_go_and_the_band_spans_them(lines):
    axes = style.new_figure(3, 3).subplots()
    draw_curves(axes, *lines, STYLES)
    mean = axes.lines[-1]
    assert mean.get_label() == STEP and mean.get_color() == "#ff0000"
    np.testing.assert_allclose(mean.get_xdata(), [1.0, 2.0])
    np.testing.assert_allclose(mean.get_ydata(), [4.0, 7.0])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.0, 10.0)
    longest = max(axes.lines, key=lambda line: len(line.get_xdata()))
    np.testing.assert_allclose(longest.get_ydata(), [2.0, 4.0, 6.0])  # a seed's own line
    assert axes.get_xlabel() == "million frames"


def test_a_coarse_run_that_went_further_ends_where_the_other_does(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e3: [0], 3e3: [4]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1e3: [0], 1.5e3: [1], 2e3: [8]}).close()
    axes = style.new_figure(3, 3).subplots()
    draw_curves(axes, *read_lines(tmp_path), STYLES)
    np.testing.assert_allclose(axes.lines[-1].get_xdata(), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), [0.0, 1.0, 5.0])


def test_seeds_with_other_cadences_meet_where_both_are(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e3: [0], 2e3: [2], 3e3: [4]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1.5e3: [10], 2.5e3: [20]}).finish()
    axes = style.new_figure(3, 3).subplots()
    draw_curves(axes, *read_lines(tmp_path), STYLES)
    np.testing.assert_allclose(axes.lines[-1].get_xdata(), [1.5, 2.5])
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), [(1 + 10) / 2, (3 + 20) / 2])
    assert axes.get_xlabel() == "thousand frames"


def test_learning_curves_have_a_panel_for_each_mode_and_game(plots):
    panels = panels_of(plots["learning-curves"].figure)
    assert list(panels) == [f"{m}  {game}" for m in ("XU", "XI", "XS") for game in GAMES]
    line = labelled(panels["XU  minatar:breakout"], "XU-step-level-0.01")
    np.testing.assert_allclose(line.get_ydata()[-1], 31.0)  # seeds score 30 and 32


def test_the_winners_of_the_curves_are_said(plots, study_of):
    assert "the highest mean is intra-episodic in 2" in plots["learning-curves"].caption
    assert learning_curves(study_of(Cell(STEP, GAMES[0], 0, 5.0))) is None


def test_the_aggregate_has_a_mean_and_a_median_for_each_mode(plots):
    figure = plots["aggregate"].figure
    panels = panels_of(figure)
    modes = ("XU", "XI", "XS")
    assert list(panels) == [f"{m}  {name}" for m in modes for name in ("mean", "median")]
    assert legend_of(figure) == [
        "experiment-level-X",
        "experiment-level-G",
        "step-level-0.01",
        "episode-level-*",
        "intra(10,informed,p*,X)",
    ]
    assert "Not in these records: XS-experiment-level-X" in notes_of(figure)
    last = [line.get_ydata()[-1] for line in panels["XU  mean"].lines]
    assert last == sorted(last)  # as the scores of the made-up variants are


def test_the_aggregate_by_hand(study_of):
    """Two games, random play at 0.411 and 0.526; the best runs of the study score 8, 4."""
    one, two = "minatar:breakout", "minatar:asterix"
    records = study_of(
        Cell(STEP, one, 0, 4.0),
        Cell(STEP, two, 0, 4.0),
        Cell(INTRA, one, 0, 8.0),
        Cell(INTRA, one, 1, 6.0),
        Cell(INTRA, two, 0, 2.0),
    )
    figure = aggregate(records).figure
    panel = panels_of(figure)["XU  mean"]
    line = labelled(panel, "intra-episodic")
    np.testing.assert_allclose(line.get_xdata()[[0, -1]], [10, 100])
    first, second = (7.0 - 0.411) / (8 - 0.411), (2.0 - 0.526) / (4 - 0.526)
    np.testing.assert_allclose(line.get_ydata()[-1], (first + second) / 2)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    first, second = (3.5 - 0.411) / (8 - 0.411), (1.0 - 0.526) / (4 - 0.526)
    np.testing.assert_allclose(halfway, (first + second) / 2)
    assert "best run of this study" in panel.get_ylabel().replace("\n", " ")


def test_the_median_of_three_games_is_the_middle_one(study_of):
    """From 0 to 1 between the study's worst and best run, games score 0, 0.5 and 1."""
    scores = {"game:a": (2.0, 8.0), "game:b": (5.0, 8.0), "game:c": (8.0, 2.0)}
    cells = [Cell(INTRA, game, 0, intra) for game, (intra, _) in scores.items()]
    cells += [Cell(STEP, game, 0, step) for game, (_, step) in scores.items()]
    cells += [Cell("XU-episode-level-*", game, 0, 2.0) for game in scores]
    panels = panels_of(aggregate(study_of(*cells)).figure)
    last = {
        name: labelled(panels[f"XU  {name}"], "step-level").get_ydata()[-1]
        for name in ("mean", "median")
    }
    np.testing.assert_allclose([last["mean"], last["median"]], [2 / 3, 1.0])


def test_atari_is_named_human_normalised(study_of):
    records = study_of(Cell(STEP, "pong", 0, 5.0), Cell(INTRA, "pong", 0, 14.6))
    panel = panels_of(aggregate(records).figure)["XU  mean"]
    assert panel.get_ylabel() == "human-normalised score"
    np.testing.assert_allclose(labelled(panel, "intra-episodic").get_ydata()[-1], 1.0)


def test_atari_has_a_human_capped_mean(study_of):
    """Pong: -20.7 random, 14.6 human. Frostbite: 65.2 and 4334.7. The step-level line
    ends at 1.5 and 0.5; halfway its returns are 16.125 and 1,099.975."""
    records = study_of(
        Cell(STEP, "pong", 0, 32.25),
        Cell(STEP, "frostbite", 0, 2199.95),
        Cell(INTRA, "pong", 0, 14.6),
        Cell(INTRA, "frostbite", 0, 65.2),
    )
    figure, said, table = aggregate(records)
    panels = panels_of(figure)
    assert list(panels) == ["XU  mean", "XU  median", "XU  human-capped mean"]
    for name, end in (("mean", 1.0), ("human-capped mean", 0.75)):
        line = labelled(panels[f"XU  {name}"], "step-level")
        np.testing.assert_allclose(line.get_ydata()[-1], end)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    np.testing.assert_allclose(halfway, (1.0 + (1099.975 - 65.2) / 4269.5) / 2)
    assert "counts as 1 at most" in notes_of(figure)
    assert "mean step-level 1.00, intra-episodic 0.50; median" in said
    assert "human-capped mean step-level 0.75, intra-episodic 0.50." in said


def test_without_human_scores_nothing_is_capped(records, study_of):
    mixed = study_of(
        *(Cell(name, game, 0, 5.0) for name in (STEP, INTRA) for game in ("pong", GAMES[0]))
    )
    for one in (records, mixed):
        figure, said, _ = aggregate(one)
        assert not any("capped" in title for title in panels_of(figure))
        assert "capped" not in notes_of(figure) + said


def test_modes_of_atari_have_a_row_each(study_of):
    names = [f"{mode}-{name[3:]}" for mode in ("XU", "XI") for name in (STEP, INTRA)]
    figure = aggregate(study_of(*(Cell(name, "pong", 0, 5.0) for name in names))).figure
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 3)
    assert [axes.get_title()[:2] for axes in figure.axes] == ["XU"] * 3 + ["XI"] * 3


def test_games_that_a_line_lacks_are_left_out_and_named(study_of):
    cells = [Cell(name, GAMES[0], 0, 5.0) for name in (STEP, INTRA)]
    figure = aggregate(study_of(*cells, Cell(STEP, GAMES[1], 0, 900.0))).figure
    assert f"XU: 1 game, minatar:breakout; not every line has {GAMES[1]}." in notes_of(
        figure
    )


def test_a_game_that_one_mode_lacks_stays_for_the_others(study_of):
    cells = [Cell(name, game, 0, 5.0) for name in (STEP, INTRA) for game in GAMES]
    soft = [name.replace("XU", "XS") for name in (STEP, INTRA)]
    figure = aggregate(study_of(*cells, *(Cell(n, GAMES[0], 0, 5.0) for n in soft))).figure
    assert "XU: 2 games" in notes_of(figure) and "XS: 1 game" in notes_of(figure)


def test_a_run_that_was_cut_short_ends_its_line_early(study_of):
    records = study_of(
        Cell(STEP, GAMES[0], 0, 5.0), Cell(INTRA, GAMES[0], 0, 9.0, share=0.5)
    )
    figure = aggregate(records).figure
    panel = panels_of(figure)["XU  mean"]
    assert labelled(panel, "intra-episodic").get_xdata()[-1] == 50
    assert labelled(panel, "step-level").get_xdata()[-1] == 100
    assert "1 run still training" in notes_of(figure)


def test_the_aggregate_is_said(plots, study_of):
    said = "XU, last 10% of training, 2 games: mean intra-episodic"
    assert said in plots["aggregate"].caption
    assert aggregate(study_of(Cell(STEP, GAMES[0], 0, 5.0))) is None


def test_what_is_said_is_the_last_tenth_and_not_the_last_point(tmp_path):
    """Pong from -20.7 to 14.6: returns of -20.7, 14.6 and 14.6 are 2/3, of 14.6 alone 1."""
    for name, late in ((STEP, (-20.7, 14.6, 14.6)), (INTRA, (14.6, 14.6, 14.6))):
        recorder = Recorder(
            tmp_path / name[:6], {"variant": name, "game": "pong", "seed": 0}
        )
        for frames, one in zip((500, 910, 920, 1_000), (0.0, *late), strict=True):
            rows = [{"frames": frames, "return": one, "length": 1}]
            recorder.write("evaluations", rows)
        recorder.finish()
    said = aggregate(read_records(tmp_path)).caption
    assert "mean intra-episodic 1.00, step-level 0.67" in said


def ends(axes):
    return [line.get_ydata()[-1] for line in axes.lines if line.get_linewidth() > 1]


def test_three_triggers_on_each_game(plots):
    figure, caption, _ = plots["informed-triggers"]
    panels = panels_of(figure)
    assert list(panels) == [f"XI-intra(10,·,p*,X)\n{game}" for game in GAMES]
    assert legend_of(figure) == ["value promise", "action mismatch", "value variance"]
    names = [
        INTRINSIC.replace("informed", kind) for kind in ("informed", "informed:mismatch")
    ]
    for name in names:
        line = labelled(panels[f"XI-intra(10,·,p*,X)\n{GAMES[0]}"], name)
        np.testing.assert_allclose(line.get_ydata()[-1], score_of(name, 0) + 1)
    assert "value variance 281, action mismatch 271, value promise 181" in caption


def test_a_trigger_that_is_missing_is_named(study_of):
    other = INTRINSIC.replace("informed", "informed:variance")
    cells = [Cell(name, GAMES[0], 0, 1.0) for name in (INTRINSIC, other)]
    cells.append(Cell(INTRINSIC, GAMES[1], 0, 1.0))
    figure = informed_triggers(study_of(*cells)).figure
    assert len(panels_of(figure)) == 1  # on the other game there is nothing to compare
    assert legend_of(figure) == ["value promise", "value variance"]
    assert "Not in these records: informed:mismatch" in notes_of(figure)
    assert informed_triggers(study_of(Cell(INTRINSIC, GAMES[0], 0, 1.0))) is None


def test_runs_with_and_without_correction_are_told_apart_by_their_settings(plots):
    figure, said, _ = plots["off-policy"]
    panels = panels_of(figure)
    assert list(panels) == [f"{INTRINSIC}\n{game}" for game in GAMES]
    assert legend_of(figure) == ["Watkins: traces are cut", "uncorrected"]
    np.testing.assert_allclose(ends(panels[f"{INTRINSIC}\n{GAMES[0]}"]), [181.0, 105.0])
    assert "Watkins: traces are cut 181, uncorrected 105" in said


def test_a_seed_run_by_default_and_by_hand_counts_once(study_of):
    records = study_of(
        Cell(INTRINSIC, GAMES[0], 0, 4.0),
        Cell(INTRINSIC, GAMES[0], 0, 6.0, {"learning.watkins": True}),
        Cell(INTRINSIC, GAMES[0], 0, 9.0, {"learning.watkins": False}),
    )
    (panel,) = panels_of(off_policy(records).figure).values()
    np.testing.assert_allclose(ends(panel), [6.0, 9.0])
    assert off_policy(study_of(Cell(INTRINSIC, GAMES[0], 0, 4.0))) is None


def test_modes_are_columns_and_games_are_rows(plots):
    figure, caption, _ = plots["explore-modes"]
    panels = panels_of(figure)
    assert list(panels) == [f"{m}  {game}" for game in GAMES for m in ("XU", "XI", "XS")]
    assert legend_of(figure) == list(SETTINGS[2:6])
    for mode in ("XU", "XI", "XS"):
        wanted = [score_of(f"{mode}-{one}", 0) + 1 for one in SETTINGS[2:6]]
        np.testing.assert_allclose(ends(panels[f"{mode}  {GAMES[1]}"]), wanted)
    heights = {panels[f"{mode}  {GAMES[0]}"].get_ylim() for mode in ("XU", "XI", "XS")}
    assert len(heights) == 1  # so that modes can be compared by eye
    assert "XS  minigrid:door_key_6x6: intra(10,blind,100,G) 321" in caption


def test_one_game_puts_the_panels_side_by_side(study_of):
    cells = [
        Cell(f"{mode}-step-level-0.01", GAMES[0], 0, 1.0, share=share)
        for mode, share in (("XU", 1.0), ("XI", 0.5))
    ]
    figure = explore_modes(study_of(*cells)).figure
    first, second = figure.axes
    assert first.get_subplotspec().rowspan == second.get_subplotspec().rowspan
    assert "1 run still training" in notes_of(figure)
    assert explore_modes(study_of(cells[0])) is None
