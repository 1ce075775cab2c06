"""What whole episodes looked like: 15 drawn at random for each variant (figures 5 and 12),
and the granularities side by side (figure 1)."""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.ticker import MaxNLocator

from sidequest.figures import pairs, style
from sidequest.figures.curves import draw_curves, label_lines, some_styles, style_keys
from sidequest.figures.data import (
    Plot,
    Records,
    distinct,
    exploit_periods,
    gap_notes,
    groups,
    of_runs,
    read_traces,
    some,
)
from sidequest.figures.illustrations import (
    EXPLOIT_HEIGHT,
    EXPLORE_HEIGHT,
    Row,
    Strip,
    draw_granularities,
    last_steps,
)

_EPISODES = 15
_LONGEST = 2_000  # steps shown of an episode: with more, a period of 10 is no longer seen
_MAIN_GAMES = _COLUMNS = 4
_MOST_PANELS = 80  # of figure 12; more games than fit are named below it
_SHOWN_IN_A_ROW = 5  # episodes of a strip of figure 1
_KINDS = ("blind", "informed")


def _traced_runs(records: Records) -> pl.DataFrame:
    return records.runs.filter("usual", pl.col("traces") > 0)


def _share() -> pl.Expr:
    """Returns p_X over all steps of some episodes, as an expression."""
    return pl.col("explored").sum() / pl.col("length").sum()


def granularities(records: Records) -> Plot | None:
    """Draws real episodes of each granularity on one game, as figure 1 does."""
    names, episodes = _longest_episodes(records)
    if not names:
        return None
    typical = _typical_length(episodes)
    recorded = episodes.group_by("variant").agg(pl.sum("length"))["length"].to_numpy().min()
    steps = min(_SHOWN_IN_A_ROW * typical, int(recorded))
    rows = []
    for label, name in zip("ABCDEFG", names, strict=False):
        later = pl.col("length").cum_sum(reverse=True) - pl.col("length")
        newest = episodes.filter(variant=name).filter(later < steps)
        modes = read_traces(records, newest, "modes")["modes"].to_list()
        rows.append(Row(label, name, last_steps(_make_strip(modes), steps)))
    figure = draw_granularities(rows, typical)
    game = episodes["game"][0]
    note = f"{game}: the last recorded episodes of one seed; the first shown may be cut."
    figure.text(0.035, 0.02, style.plain(note), size=style.SMALL, color=style.NOTE)
    shares = {row.variant: float(row.trace.modes.mean()) for row in rows}
    said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    caption = f"Share of explore steps in these strips ({game}): {said}."
    table = pl.DataFrame({"variant": list(shares), "p_X": list(shares.values())})
    return Plot(figure, caption, table)


def _longest_episodes(records: Records) -> tuple[list[str], pl.DataFrame]:
    """Returns a variant for each granularity, and the episodes of one seed of each.

    The first explore mode with two granularities or more, on the game with the longest
    episodes: there is most to see.
    """
    runs = _traced_runs(records)
    for mode in pairs.modes_in(distinct(runs, "variant")):
        found = []
        for own in groups(runs, "game"):
            chosen = list(pairs.representatives(distinct(own, "variant"), mode).values())
            if len(chosen) > 1:
                seeds = own.filter(pl.col("variant").is_in(chosen))
                seeds = seeds.unique("variant", keep="first", maintain_order=True)
                episodes = of_runs(records.traces, seeds, "variant", "game").sort("frames")
                found.append((chosen, episodes))
        if found:
            return max(found, key=lambda one: _typical_length(one[1]))
    return [], records.traces.clear()


def _typical_length(episodes: pl.DataFrame) -> int:
    """Returns the median length of the episodes of the variant where it is greatest."""
    medians = episodes.group_by("variant").agg(pl.median("length"))
    return int(medians["length"].to_numpy().max())


def _make_strip(episodes: Sequence[str]) -> Strip:
    """Returns episodes one after the other, as strips are drawn from."""
    modes = np.array([letter == "X" for letter in "".join(episodes)], bool)
    first = np.zeros(len(modes), bool)
    first[np.cumsum([0, *map(len, episodes[:-1])])] = True
    return Strip(modes, first)


@style.styled
def blind_and_informed(records: Records) -> Plot | None:
    """Draws, for each game, both kinds of episodes and both learning curves (figure 5)."""
    parts = []
    for own in groups(_traced_runs(records), "game"):
        for pair in pairs.blind_and_informed(distinct(own, "variant"))[:1]:
            parts.append(label_lines(own, dict(zip(_KINDS, pair, strict=True))))
    if not parts:
        return None
    runs = pl.concat(parts)
    cells = groups(runs, "game", "line")
    table = pl.DataFrame([_describe_episodes(records, own) for own in cells])
    games = distinct(runs, "game")
    gaps = gap_notes(records, runs)
    left_out = games[_MAIN_GAMES:]
    notes = [
        f"Rows: up to {_EPISODES} recorded episodes, drawn at random, in order of "
        f"training; at most their first {_LONGEST:,} steps. High magenta bars explore.",
        *([f"Other games: {some(left_out, 7)}; see episodes-all."] if left_out else []),
        *gaps,
    ]
    styles = some_styles(_KINDS)
    title = "When agents explored: blind against informed triggers"
    keys = style_keys(styles, {kind: kind for kind in _KINDS})
    shown = games[:_MAIN_GAMES]
    figure = style.compose(2.2 * len(shown), title=title, keys=keys, notes=notes)
    grid = figure.subplots(len(shown), 3, squeeze=False, width_ratios=[1.15, 1.15, 1])
    for row, game in zip(grid, shown, strict=True):
        for axes, cell in zip(row, table.filter(game=game).to_dicts(), strict=False):
            _draw_episodes(axes, _pick(records, runs.filter(game=game, line=cell["line"])))
            title = style.plain(f"{cell['variant']}\n") + f"$p_X$ = {cell['p_X']:.2f}"
            axes.set_title(title, fontsize=style.SMALL)
        row[0].set_ylabel(style.plain(game), fontsize=style.MEDIUM)
        draw_curves(row[2], records, runs.filter(game=game), styles)
        row[2].set_title("return", fontsize=style.SMALL)
    sentences = [
        "Unevenness is the standard deviation of the exploit periods between two explore "
        "periods over their mean: 0 for a counter, about 1 for a coin, more for clusters."
    ]
    for (game,), own in table.group_by("game", maintain_order=True):
        said = []
        for kind, p, ratio in own.select("line", "p_X", "unevenness").rows():
            uneven = "unknown" if ratio is None else f"{ratio:.2f}"
            said.append(f"{kind} p_X {p:.2f}, unevenness {uneven}")
        sentences.append(f"{game}: {'; '.join(said)}.")
    return Plot(figure, " ".join([*sentences, *gaps]), table)


def _describe_episodes(records: Records, runs: pl.DataFrame) -> dict:
    """Returns p_X of all recorded episodes of runs, and how uneven exploit periods are."""
    traces = of_runs(records.traces, runs)
    steps = exploit_periods(read_traces(records, traces, "modes"))["steps"].to_numpy()
    return {
        **runs.select("game", "line", "variant").row(0, named=True),
        "p_X": traces.select(_share()).item(),
        "unevenness": steps.std() / steps.mean() if len(steps) else None,
    }


@style.styled
def all_episodes(records: Records) -> Plot | None:
    """Draws episodes of every intra-episodic variant, on each game (figure 12 and more)."""
    runs = _traced_runs(records)
    variants = pairs.known(distinct(runs, "variant"))
    intra = [name for name, variant in variants.items() if variant.granularity == "intra"]
    runs = runs.filter(pl.col("variant").is_in(intra))
    if runs.is_empty():
        return None
    games, panels = distinct(runs, "game"), len(groups(runs, "game", "variant"))
    fitting = max(1, _MOST_PANELS * len(games) // max(panels, _MOST_PANELS))
    games, left_out = games[:fitting], games[fitting:]
    rows = [
        row
        for game in games
        for row in style.in_rows(groups(runs.filter(game=game), "variant"), _COLUMNS)
    ]
    notes = [
        f"Up to {_EPISODES} recorded episodes each, drawn at random; at most their first "
        f"{_LONGEST:,} steps.",
        *([f"Not drawn, to keep this readable: {some(left_out, 7)}."] if left_out else []),
        *gap_notes(records, runs.filter(pl.col("game").is_in(games))),
    ]
    title = "When agents explored: every intra-episodic variant"
    figure = style.compose(1.45 * len(rows), title=title, notes=notes)
    for cells, row in zip(style.add_panels(figure, rows), rows, strict=True):
        for axes, own in zip(cells, row, strict=True):
            _draw_episodes(axes, _pick(records, own))
            axes.set_title(style.plain(own["variant"][0]), fontsize=style.SMALL - 0.5)
        cells[0].set_ylabel(style.plain(row[0]["game"][0]))
    episodes = of_runs(records.traces, runs, "variant")
    table = episodes.group_by("variant").agg(p_X=_share(), episodes=pl.len())
    table = pl.DataFrame({"variant": intra}).join(
        table, on="variant", maintain_order="left"
    )
    said = ", ".join(f"{name} {p:.2f}" for name, p in table.select("variant", "p_X").rows())
    return Plot(figure, f"Share of explore steps of all recorded episodes: {said}.", table)


def _pick(records: Records, runs: pl.DataFrame) -> list[str]:
    """Returns the modes of some recorded episodes, in the order of training.

    They are drawn at random, but the same ones each time.
    """
    order = ("frames", "run", "row")
    traces = of_runs(records.traces, runs).sort(order)
    number = min(_EPISODES, len(traces))
    chosen = np.random.default_rng(0).choice(len(traces), size=number, replace=False)
    picked = read_traces(records, traces[sorted(chosen.tolist())], "modes")
    return picked.sort(order)["modes"].to_list()


def _draw_episodes(axes: Axes, episodes: Sequence[str], longest: int = _LONGEST) -> None:
    """Draws one row an episode, first at the top; x is the step within the episode.

    Rows look like `draw_strip` makes them, but all are in two collections: a figure has
    hundreds.
    """
    shown = [modes[:longest] for modes in episodes]
    lengths = [(row, 0, len(modes)) for row, modes in enumerate(shown)]
    explored = [
        (row, period.start(), period.end())
        for row, modes in enumerate(shown)
        for period in re.finditer("X+", modes)
    ]
    for bars, height, colour in (
        (lengths, EXPLOIT_HEIGHT, style.BLUE),
        (explored, EXPLORE_HEIGHT, style.MAGENTA),
    ):
        boxes = [
            [(x, row + up * height / 2) for x, up in ((a, -1), (b, -1), (b, 1), (a, 1))]
            for row, a, b in bars
        ]
        axes.add_collection(PolyCollection(boxes, facecolors=colour, linewidths=0))
    axes.set_xlim(0, max(map(len, shown), default=1))
    axes.set_ylim(_EPISODES - 0.4, -0.6)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("step")
    style.hide_sides(axes, "left")
