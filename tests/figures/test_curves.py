"""Learning curves: figures 3, 8, 10, 15 and 16."""

import itertools

import numpy as np
import polars as pl
import pytest

from sidequest.figures import style
from sidequest.figures.curves import (
    aggregate,
    bin_curves,
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


def make_run(folder, variant, seed, evaluations):
    """A run whose evaluations are {frames: returns}."""
    recorder = Recorder(folder, {"variant": variant, "game": "game:one", "seed": seed})
    for frames, returns in evaluations.items():
        rows = [{"frames": frames, "return": one, "length": 1} for one in returns]
        recorder.write("evaluations", rows)
    return recorder


def curves_of(folder):
    """The panel of all runs below a folder, and the mean of its only line by frames."""
    axes = style.new_figure(3, 3).subplots()
    records = read_records(folder)
    draw_curves(axes, bin_curves(records, records.runs, "game"), records.runs)
    (line,) = [line for line in axes.lines if line_is_mean(line)]
    return axes, dict(zip(line.get_xdata().round(3), line.get_ydata(), strict=True))


def final_marks(axes):
    """The heights of what is drawn right of the dotted line at the end of training."""
    (end,) = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"]
    assert max(axes.get_xticks()) <= end  # right of it there is no time
    marks = [line for line in axes.lines if min(line.get_xdata()) > end]
    return [[*line.get_ydata()] for line in marks]


def line_is_mean(line) -> bool:
    return not line.get_label().startswith("_")


def test_a_bin_is_the_mean_of_all_its_episodes(tmp_path):
    """Of 4,000 frames a bin has 100. Each episode counts, not only the nearest ones."""
    returns = {10: [1], 60: [2, 3], 100: [6], 101: [50], 4_000: [9]}
    make_run(tmp_path / "a", STEP, 0, returns).finish()
    records = read_records(tmp_path)
    bins = bin_curves(records, records.runs, "game")
    np.testing.assert_allclose(bins["frames"], 100 * np.arange(1, 41))
    assert bins["return"].to_list()[:2] == [3.0, 50.0]
    # Bins without an evaluation lie on the line between their neighbours.
    np.testing.assert_allclose(bins["return"][2], 50 + (9 - 50) / 38)
    assert bin_curves(records, records.runs.clear(), "game").is_empty()


def test_a_line_is_the_mean_over_seeds_as_far_as_all_go(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e6: [1, 3], 2e6: [4], 3e6: [6]}).finish()
    make_run(tmp_path / "b", STEP, 1, {1e6: [6], 2e6: [10]}).close()  # still training
    axes, mean = curves_of(tmp_path)
    assert labelled(axes, STEP).get_color() == style.look(STEP).colour
    np.testing.assert_allclose([min(mean), max(mean)], [1.05, 2.025])  # ends of bins
    np.testing.assert_allclose([mean[1.05], mean[2.025]], [4.0, 7.0])
    np.testing.assert_allclose(mean[1.5], (2 + 6) / 2 + 3 * (6 / 13), rtol=1e-6)
    assert not axes.collections  # two seeds have no band
    assert final_marks(axes) == [[6.0, 10.0], [8.0]]  # dots, and their mean
    assert axes.get_xlabel() == "million frames"


def test_three_seeds_have_a_band_from_the_worst_to_the_best(tmp_path):
    for seed, late in enumerate((5.0, 6.0, 10.0)):
        make_run(tmp_path / str(seed), STEP, seed, {1e3: [0], 2e3: [late]}).finish()
    axes, mean = curves_of(tmp_path)
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices
    assert set(heights[heights[:, 0] == 2.0][:, 1]) == {5.0, 10.0}
    assert mean[2.0] == 7.0 and final_marks(axes) == [[5.0, 10.0], [7.0]]
    assert axes.get_xlabel() == "thousand frames"


def short_and_long(folder, *runs):
    """Runs of 1k and 400k frames: (variant, seed, frames, final return)."""
    for number, (variant, seed, frames, late) in enumerate(runs):
        evaluations = {frames / 2: [0], frames: [late]}
        make_run(folder / str(number), variant, seed, evaluations).finish()
    return read_records(folder)


def test_a_run_that_ends_in_the_first_bin_is_left_out(tmp_path):
    """Of each variant one seed ended at 1k of 400k frames; the other scores 2 or 4."""
    short, long = 1_000, 400_000
    step, intra = ((STEP, 0, short, 9), (STEP, 1, long, 2)), ((INTRA, 0, long, 4),)
    records = short_and_long(tmp_path, *step, *intra, (INTRA, 1, short, 9))
    figure, _, table = aggregate(records)
    assert table.select("variant", "seeds").rows() == [(STEP, 1), (INTRA, 1)]
    scores = dict(table.select("variant", "score").rows())
    assert scores[INTRA] - scores[STEP] == pytest.approx(2 / 7)  # the best is 9, worst 2
    assert "Left out: 2 runs too short to have a curve." in notes_of(figure)
    figure, _, table = learning_curves(records)
    assert table.select("variant", "mean").rows() == [(STEP, 2.0), (INTRA, 4.0)]
    assert final_marks(*figure.axes) == [[2.0], [4.0]]


def test_without_a_second_variant_there_is_no_average(tmp_path):
    """All runs of one variant ended in the first bin; or all of both, still training."""
    runs = (STEP, 0, 1_000, 9), (STEP, 1, 1_000, 9), (INTRA, 0, 400_000, 4)
    records = short_and_long(tmp_path, *runs)
    assert aggregate(records) is None
    begun = records.runs.filter(frames_done=1_000).with_columns(frames=400_000)
    begun = pl.concat([begun[:1], begun[1:].with_columns(variant=pl.lit(INTRA))])
    assert aggregate(records._replace(runs=begun)) is None


def test_nothing_but_zeros_is_not_magnified(tmp_path):
    make_run(tmp_path / "a", STEP, 0, {1e3: [0], 2e3: [0]}).finish()
    low, high = curves_of(tmp_path)[0].get_ylim()
    assert low < 0 < 1 < high


def test_learning_curves_have_a_panel_for_each_mode_and_game(plots):
    panels = panels_of(plots["learning-curves"].figure)
    assert list(panels) == [f"{m}  {game}" for m in ("XU", "XI", "XS") for game in GAMES]
    line = labelled(panels["XU  minatar:breakout"], "XU-step-level-0.01")
    np.testing.assert_allclose(line.get_ydata()[-1], 31.0)  # seeds score 30 and 32


def test_up_to_eight_variants_all_have_a_curve(study_of):
    """Of more, one stands for each granularity, or the first eight if there is but one."""
    intra = [f"XU-intra({n},blind,0.01,G)" for n in range(1, 10)]
    for names, shown in (
        (intra[:1], intra[:1]),
        (intra[:8], intra[:8]),
        (intra, intra[:8]),
        ([STEP, *intra[:7]], [STEP, *intra[:7]]),
        ([STEP, *intra[:8]], [STEP, intra[0]]),
    ):
        plot = learning_curves(study_of(*(Cell(name, GAMES[0], 0, 5.0) for name in names)))
        assert set(plot.table["variant"]) == set(shown)
        left_out = f"XU: {len(shown)} of {len(names)} variants."
        assert (left_out in notes_of(plot.figure)) == (len(shown) < len(names))


def test_the_winners_of_the_curves_are_said(plots, study_of):
    said = plots["learning-curves"].caption
    assert said.startswith("Highest final mean. XU, 2 games: intra(10,informed,p*,X) in 2.")
    assert learning_curves(study_of(Cell(STEP, GAMES[0], 0, 5.0))).caption == ""
    tied = study_of(*(Cell(name, GAMES[0], 0, 5.0) for name in (STEP, INTRA)))
    assert "XU, 1 game: no difference in 1." in learning_curves(tied).caption


def test_two_games_have_no_median_of_their_own(plots):
    figure, caption, table = plots["aggregate"]
    panels = panels_of(figure)
    assert list(panels) == [f"{mode}  mean" for mode in ("XU", "XI", "XS")]
    assert legend_of(figure) == [
        "A  experiment-level-X",
        "B  experiment-level-G",
        "C  step-level-0.01",
        "D  episode-level-*",
        "E  intra(10,informed,p*,X)",
    ]
    assert "One variant stands for each granularity." in notes_of(figure)
    last = [line.get_ydata()[-1] for line in panels["XU  mean"].lines if line_is_mean(line)]
    assert len(last) == 5 and last == sorted(last)  # as the made-up scores are
    best = "XU, 2 games: XU-intra(10,informed,p*,X) is best (0."
    assert best in caption and "XU-experiment-level-X worst (0." in caption
    assert table.columns == [
        *("variant", "statistic", "score", "95% from", "95% to", "games", "seeds")
    ]


def test_the_aggregate_by_hand(study_of):
    """Two games, random play at 0.393 and 0.506; the best runs of the study score 8, 4."""
    one, two = "minatar:breakout", "minatar:asterix"
    records = study_of(
        Cell(STEP, one, 0, 4.0),
        Cell(STEP, two, 0, 4.0),
        Cell(INTRA, one, 0, 8.0),
        Cell(INTRA, one, 1, 6.0),
        Cell(INTRA, two, 0, 2.0),
    )
    panel = panels_of(aggregate(records).figure)["XU  mean"]
    line = labelled(panel, INTRA)
    np.testing.assert_allclose(line.get_xdata()[[0, -1]], [10, 100])
    first, second = (7.0 - 0.393) / (8 - 0.393), (2.0 - 0.506) / (4 - 0.506)
    np.testing.assert_allclose(line.get_ydata()[-1], (first + second) / 2)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    first, second = (3.5 - 0.393) / (8 - 0.393), (1.0 - 0.506) / (4 - 0.506)
    np.testing.assert_allclose(halfway, (first + second) / 2)
    assert "best run of this study" in panel.get_ylabel().replace("\n", " ")


def test_final_scores_span_the_seeds_and_the_numbers_have_intervals(study_of):
    """Seeds 0 to 2 score 0, 3 and 9 on one game and 9, 3 and 0 on another, scaled to 1: a
    seed's mean over both is 0.5, 1/3 or 0.5. The bootstrap draws games apart."""
    scores = {"game:a": (0.0, 3.0, 9.0), "game:b": (9.0, 3.0, 0.0)}
    cells = [
        Cell(name, game, seed, own)
        for name in (STEP, INTRA)
        for game, seeds in scores.items()
        for seed, own in enumerate(seeds)
    ]
    figure, _, table = aggregate(study_of(*cells))
    (panel,) = panels_of(figure).values()
    assert not panel.collections  # five bands would be mud
    spans = [[1 / 3, 0.5], [4 / 9]]
    np.testing.assert_allclose(np.hstack(final_marks(panel)), np.hstack(spans + spans))
    assert (table["95% from"] < 0.2).all() and (table["95% to"] > 0.7).all()
    few = aggregate(study_of(*cells[::3])).table
    assert few["95% from"].is_null().all()


def test_many_lines_have_no_bands(study_of):
    names = [f"XU-{setting}" for setting in SETTINGS[1:5]]
    for lines, bands in ((3, 3), (4, 0)):
        cells = [
            Cell(name, GAMES[0], seed, seed) for name in names[:lines] for seed in (0, 1, 2)
        ]
        (panel,) = panels_of(learning_curves(study_of(*cells)).figure).values()
        assert len(panel.collections) == bands


def test_equal_granularities_are_not_ranked(study_of):
    names = [STEP, INTRA, "XU-episode-level-*"]
    cells = [Cell(name, game, 0, 3.0) for name in names[:2] for game in GAMES]
    assert "XU, 2 games: no difference (all 1.00)." in aggregate(study_of(*cells)).caption
    cells += [Cell(names[2], game, 0, 0.5) for game in GAMES]
    said = aggregate(study_of(*cells)).caption
    assert f"{STEP} and {INTRA} are best (1.00), {names[2]} worst (0." in said


def test_panels_of_one_mode_stand_in_one_row(study_of):
    games = ("minatar:breakout", "minatar:asterix", "minatar:freeway")
    names = [f"{mode}-{one[3:]}" for mode in ("XU", "XI", "XS") for one in (STEP, INTRA)]
    cells = [Cell(name, game, 0, 5.0) for name in names for game in games]
    rows = {}
    for title, axes in panels_of(aggregate(study_of(*cells)).figure).items():
        rows.setdefault(title[:2], set()).add(axes.get_subplotspec().rowspan.start)
    assert rows == {"XU": {0}, "XI": {0}, "XS": {1}}


@style.styled
@pytest.mark.parametrize("budget", [1_900_000, 2_049_000_000])
def test_numbers_below_narrow_panels_do_not_meet(tmp_path, budget):
    names = [f"XU-{setting}" for setting in SETTINGS[:5]]
    games = ("game:a", "game:b", "game:c", "game:d")
    for number, (name, game) in enumerate(itertools.product(names, games)):
        info = {"variant": name, "game": game, "seed": 0}
        recorder = Recorder(tmp_path / str(number), info)
        for frames in (budget // 40, budget):
            row = {"frames": frames, "return": 1e4 * frames / budget, "length": 1}
            recorder.write("evaluations", [row])
        recorder.finish()
    figure = learning_curves(read_records(tmp_path)).figure
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > 2
        assert all(a.x1 + 5 < b.x0 for a, b in itertools.pairwise(boxes))


def test_the_median_of_three_games_is_the_middle_one(study_of):
    """From 0 to 1 between the study's worst and best run, games score 0, 0.5 and 1."""
    scores = {"game:a": (2.0, 8.0), "game:b": (5.0, 8.0), "game:c": (8.0, 2.0)}
    cells = [Cell(INTRA, game, 0, intra) for game, (intra, _) in scores.items()]
    cells += [Cell(STEP, game, 0, step) for game, (_, step) in scores.items()]
    cells += [Cell("XU-episode-level-*", game, 0, 2.0) for game in scores]
    panels = panels_of(aggregate(study_of(*cells)).figure)
    last = {
        name: labelled(panels[f"XU  {name}"], STEP).get_ydata()[-1]
        for name in ("mean", "median")
    }
    np.testing.assert_allclose([last["mean"], last["median"]], [2 / 3, 1.0])


def test_atari_has_a_human_capped_mean(study_of):
    """Pong: -20.7 random, 14.6 human. Frostbite: 65.2 and 4334.7. The step-level line
    ends at 1.5 and 0.5; halfway its returns are 16.125 and 1,099.975."""
    records = study_of(
        Cell(STEP, "pong", 0, 32.25),
        Cell(STEP, "frostbite", 0, 2199.95),
        Cell(INTRA, "pong", 0, 14.6),
        Cell(INTRA, "frostbite", 0, 65.2),
    )
    figure, _, table = aggregate(records)
    panels = panels_of(figure)
    assert list(panels) == ["XU  mean", "XU  human-capped mean"]
    assert panels["XU  mean"].get_ylabel() == "human-normalised score"
    for name, end in (("mean", 1.0), ("human-capped mean", 0.75)):
        line = labelled(panels[f"XU  {name}"], STEP)
        np.testing.assert_allclose(line.get_ydata()[-1], end)
    halfway = line.get_ydata()[np.isclose(line.get_xdata(), 50)]
    np.testing.assert_allclose(halfway, (1.0 + (1099.975 - 65.2) / 4269.5) / 2)
    assert "counts as 1 at most" in notes_of(figure)
    np.testing.assert_allclose(table["score"], [1.0, 0.5, 0.75, 0.5])


def test_without_human_scores_nothing_is_capped(records, study_of):
    mixed = study_of(
        *(Cell(name, game, 0, 5.0) for name in (STEP, INTRA) for game in ("pong", GAMES[0]))
    )
    for one in (records, mixed):
        figure, said, _ = aggregate(one)
        assert not any("capped" in title for title in panels_of(figure))
        assert "capped" not in notes_of(figure) + said


def test_modes_of_atari_stay_together(study_of):
    names = [f"{mode}-{name[3:]}" for mode in ("XU", "XI") for name in (STEP, INTRA)]
    games = ("pong", "frostbite", "hero")
    cells = [Cell(name, game, 0, 5.0) for name in names for game in games]
    figure = aggregate(study_of(*cells)).figure
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
    plot = aggregate(records)
    panel = panels_of(plot.figure)["XU"]  # one game has no mean over games
    assert labelled(panel, INTRA).get_xdata()[-1] == 50
    assert labelled(panel, STEP).get_xdata()[-1] == 100
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
    assert f"{INTRA} is best (1.00), {STEP} worst (0.67)" in said


def ends(axes):
    return [line.get_ydata()[-1] for line in axes.lines if line_is_mean(line)]


def test_three_triggers_on_each_game(plots):
    figure, caption, _ = plots["informed-triggers"]
    panels = panels_of(figure)
    assert list(panels) == [f"XI-intra(10,·,p*,X)\n{game}" for game in GAMES]
    triggers = ("informed", "informed:mismatch", "informed:variance")
    names = [INTRINSIC.replace("informed", kind) for kind in triggers]
    assert legend_of(figure) == [f"{style.look(n).letter}  {n[3:]}" for n in names]
    for name in names:
        line = labelled(panels[f"XI-intra(10,·,p*,X)\n{GAMES[0]}"], name)
        np.testing.assert_allclose(line.get_ydata()[-1], score_of(name, 0) + 1)
    assert "XI, 2 games: intra(10,informed:variance,p*,X) in 2." in caption


def test_triggers_are_compared_where_two_are_there(study_of):
    other = INTRINSIC.replace("informed", "informed:variance")
    cells = [Cell(name, GAMES[0], 0, 1.0) for name in (INTRINSIC, other)]
    cells.append(Cell(INTRINSIC, GAMES[1], 0, 1.0))
    figure = informed_triggers(study_of(*cells)).figure
    assert len(panels_of(figure)) == 1  # on the other game there is nothing to compare
    assert len(legend_of(figure)) == 2
    assert informed_triggers(study_of(Cell(INTRINSIC, GAMES[0], 0, 1.0))) is None


def test_runs_with_and_without_correction_are_told_apart_by_their_settings(plots):
    figure, said, _ = plots["off-policy"]
    panels = panels_of(figure)
    assert list(panels) == [f"{INTRINSIC}\n{game}" for game in GAMES]
    assert legend_of(figure) == ["Watkins: traces are cut", "uncorrected"]
    panel = panels[f"{INTRINSIC}\n{GAMES[0]}"]
    np.testing.assert_allclose(ends(panel), [181.0, 105.0])
    cut, uncut = (line for line in panel.lines if line_is_mean(line))
    assert cut.get_color() == uncut.get_color() == style.look(INTRINSIC).colour
    assert (cut.get_linestyle(), uncut.get_linestyle()) == ("-", "--")
    assert "XI, 2 games: Watkins: traces are cut in 2." in said


def test_two_variants_on_one_game_are_not_two_games(study_of):
    cells = [
        Cell(name, GAMES[0], 0, score, {"learning.watkins": cut})
        for name in (STEP, INTRA)
        for score, cut in ((4.0, True), (9.0, False))
    ]
    said = off_policy(study_of(*cells)).caption
    assert said == "Highest final mean. XU, 2 panels: uncorrected in 2."


def test_a_seed_run_by_default_and_by_hand_counts_once(study_of):
    records = study_of(
        Cell(INTRINSIC, GAMES[0], 0, 4.0),
        Cell(INTRINSIC, GAMES[0], 0, 6.0, {"learning.watkins": True}),
        Cell(INTRINSIC, GAMES[0], 0, 9.0, {"learning.watkins": False}),
    )
    (panel,) = panels_of(off_policy(records).figure).values()
    np.testing.assert_allclose(ends(panel), [6.0, 9.0])
    assert off_policy(study_of(Cell(INTRINSIC, GAMES[0], 0, 4.0))) is None


def test_trace_cutting_is_compared_among_runs_that_share_the_other_settings(study_of):
    records = study_of(
        Cell(INTRINSIC, GAMES[0], 0, 4.0),
        Cell(INTRINSIC, GAMES[0], 0, 9.0, {"learning.watkins": False}),
        Cell(INTRINSIC, GAMES[0], 0, 50.0, {"replay.ratio": 2.0}),
    )
    (panel,) = panels_of(off_policy(records).figure).values()
    np.testing.assert_allclose(ends(panel), [4.0, 9.0])


def test_modes_are_columns_and_games_are_rows(plots):
    figure, caption, _ = plots["explore-modes"]
    panels = panels_of(figure)
    assert list(panels) == [f"{m}  {game}" for game in GAMES for m in ("XU", "XI", "XS")]
    assert {entry.partition("  ")[2] for entry in legend_of(figure)} == set(SETTINGS[2:6])
    for mode in ("XU", "XI", "XS"):
        wanted = [score_of(f"{mode}-{one}", 0) + 1 for one in SETTINGS[2:6]]
        np.testing.assert_allclose(ends(panels[f"{mode}  {GAMES[1]}"]), wanted)
    heights = {panels[f"{mode}  {GAMES[0]}"].get_ylim() for mode in ("XU", "XI", "XS")}
    assert len(heights) == 1  # so that modes can be compared by eye
    assert "XS, 2 games: intra(10,blind,100,G) in 2." in caption


def test_one_game_puts_the_panels_side_by_side(study_of):
    cells = [
        Cell(f"{mode}-step-level-0.01", GAMES[0], 0, 1.0, share=share)
        for mode, share in (("XU", 1.0), ("XI", 0.5))
    ]
    plot = explore_modes(study_of(*cells))
    first, second = plot.figure.axes
    assert first.get_subplotspec().rowspan == second.get_subplotspec().rowspan
    assert explore_modes(study_of(cells[0])) is None
