"""What whole episodes looked like: 15 drawn at random for each variant (figures 5 and 12),
and the granularities side by side (figure 1)."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sidequest.figures import style as look
from sidequest.figures.claims.measures import exploit_periods
from sidequest.figures.curves import draw_panel, some_styles, style_keys
from sidequest.figures.illustrations import (
    EXPLOIT_HEIGHT,
    EXPLORE_HEIGHT,
    Row,
    draw_granularities,
    last_steps,
)
from sidequest.figures.notes import gap_notes, some
from sidequest.figures.pairs import (
    Pair,
    blind_and_informed,
    known,
    modes_in,
    representatives,
)
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    on_game,
    plain_runs,
    runs_of,
    table,
    variants_of,
)
from sidequest.types import Trace

EPISODES = 15
LONGEST = 2_000  # steps shown of an episode: with more, a period of 10 is no longer seen
MAIN_GAMES = COLUMNS = 4
MOST_PANELS = 80  # of figure 12; more games than fit are named below it
SHOWN_IN_A_ROW = 5  # episodes of a strip of figure 1
NEEDS_PAIR = (
    "Nothing to draw yet: this needs recorded episodes (table `traces`) of a blind variant "
    "and of the informed one that switches as often, such as XU-intra(10,blind,100,G) and "
    "XU-intra(10,informed,0.01,G)."
)
NEEDS_TRACES = "Nothing to draw yet: no run has a recorded episode (table `traces`)."


def modes_of_episodes(runs: Iterable[Run]) -> list[str]:
    """Recorded episodes as letters, of all seeds, in the order of training."""
    rows: list[tuple[int, str]] = []
    for run in runs:
        traces = table(run, "traces")
        if len(traces):
            rows += [
                (int(frames), str(modes))
                for frames, modes in traces.select("frames", "modes").rows()
            ]
    return [modes for _, modes in sorted(rows)]


def draw_from(rng: np.random.Generator, episodes: Sequence[str], number: int) -> list[str]:
    """Some of the episodes, each at most once, in the order of training."""
    number = min(number, len(episodes))
    chosen = rng.choice(len(episodes), size=number, replace=False)
    return [episodes[int(i)] for i in sorted(chosen)]


def make_trace(episodes: Sequence[str]) -> Trace:
    """Episodes one after the other, as what strips are drawn from."""
    modes = np.array([letter == "X" for letter in "".join(episodes)], bool)
    first = np.zeros(len(modes), bool)
    first[np.cumsum([0, *map(len, episodes[:-1])])] = True
    nothing = np.full(len(modes), np.nan)
    return Trace(modes, first, nothing, nothing, np.zeros(len(modes)))


def draw_episodes(axes: Axes, episodes: Sequence[str], longest: int) -> None:
    """One row an episode, first at the top; x is the step within the episode.

    Strips as `draw_strip` makes them, all rows in two collections: a figure has hundreds.
    """
    shown = [modes[:longest] for modes in episodes]
    lengths = [(row, 0, len(modes)) for row, modes in enumerate(shown)]
    explored = [
        (row, period.start(), period.end())
        for row, modes in enumerate(shown)
        for period in re.finditer("X+", modes)
    ]
    for bars, height, colour in (
        (lengths, EXPLOIT_HEIGHT, look.BLUE),
        (explored, EXPLORE_HEIGHT, look.MAGENTA),
    ):
        boxes = [
            [(x, row + up * height / 2) for x, up in ((a, -1), (b, -1), (b, 1), (a, 1))]
            for row, a, b in bars
        ]
        axes.add_collection(PolyCollection(boxes, facecolors=colour, linewidths=0))
    axes.set_xlim(0, max((len(modes) for modes in shown), default=1))
    axes.set_ylim(EPISODES - 0.4, -0.6)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("step", fontsize=look.SMALL)
    look.tidy(axes, sides=("bottom",))


def share(episodes: Sequence[str]) -> float:
    """p_X over all steps of the episodes."""
    letters = "".join(episodes)
    return letters.count("X") / max(1, len(letters))


def traced_pairs(runs: Sequence[Run]) -> dict[str, Pair]:
    """For each game the first pair, blind and informed, that both have episodes."""
    found = {}
    for game in games_of(runs):
        own = [run for run in on_game(runs, game) if len(table(run, "traces"))]
        pairs = blind_and_informed(variants_of(own))
        if pairs:
            found[game] = pairs[0]
    return found


def draw_blind_and_informed(records: Records) -> Figure | None:
    """Figure 5: for each game both kinds of episodes, and both learning curves."""
    runs = plain_runs(records)
    pairs = traced_pairs(runs)
    if not pairs:
        return None
    games = list(pairs)[:MAIN_GAMES]
    styles = some_styles(["blind", "informed"])
    shown = [
        run for game in games for name in pairs[game] for run in runs_of(runs, name, game)
    ]
    left_out = [game for game in pairs if game not in games]
    notes = [
        f"Rows: up to {EPISODES} recorded episodes, drawn at random, in order of training; "
        f"at most their first {LONGEST:,} steps. High magenta bars explore.",
        *([f"Other games: {some(left_out, 7)}; see episodes-all."] if left_out else []),
        *gap_notes(records, shown),
    ]
    figure = look.compose(
        2.2 * len(games),
        title="When agents explored: blind against informed triggers",
        keys=style_keys(styles, {"blind": "blind", "informed": "informed"}),
        notes=notes,
    )
    grid = figure.subplots(len(games), 3, squeeze=False, width_ratios=[1.15, 1.15, 1])
    for row, game in zip(grid, games, strict=True):
        for axes, name in zip(row, pairs[game], strict=False):
            episodes = pick(runs_of(runs, name, game))
            draw_episodes(axes, episodes, LONGEST)
            axes.set_title(
                look.plain(f"{name}\n") + f"$p_X$ = {share(episodes):.2f}",
                fontsize=look.SMALL,
            )
        row[0].set_ylabel(look.plain(game), fontsize=look.MEDIUM)
        lines = {
            kind: runs_of(runs, name, game)
            for kind, name in zip(styles, pairs[game], strict=True)
        }
        draw_panel(row[2], lines, styles)
        row[2].set_title("return", fontsize=look.SMALL)
    return figure


def pick(runs: Sequence[Run]) -> list[str]:
    """The same episodes each time that the same records are drawn."""
    return draw_from(np.random.default_rng(0), modes_of_episodes(runs), EPISODES)


def draw_all_episodes(records: Records) -> Figure | None:
    """Figure 12 and more: every intra-episodic variant, on each game."""
    runs = plain_runs(records)
    intra = [n for n, v in known(variants_of(runs)).items() if v.granularity == "intra"]
    cells = [
        (game, name)
        for game in games_of(runs)
        for name in intra
        if any(len(table(run, "traces")) for run in runs_of(runs, name, game))
    ]
    games = list(dict.fromkeys(game for game, _ in cells))
    if len(games) > 1 and len(cells) > MOST_PANELS:
        games = games[: max(1, MOST_PANELS * len(games) // len(cells))]
    left_out = list(dict.fromkeys(game for game, _ in cells if game not in games))
    cells = [(game, name) for game, name in cells if game in games]
    if not cells:
        return None
    rows = [
        own[i : i + COLUMNS]
        for game in games
        for own in [[cell for cell in cells if cell[0] == game]]
        for i in range(0, len(own), COLUMNS)
    ]
    shown = [run for game, name in cells for run in runs_of(runs, name, game)]
    notes = [
        f"Up to {EPISODES} recorded episodes each, drawn at random; at most their first "
        f"{LONGEST:,} steps.",
        *([f"Not drawn, to keep this readable: {some(left_out, 7)}."] if left_out else []),
        *gap_notes(records, shown),
    ]
    title = "When agents explored: every intra-episodic variant"
    figure = look.compose(1.45 * len(rows), title=title, notes=notes)
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for axes_row, row in zip(grid, rows, strict=True):
        for axes, (game, name) in zip(axes_row, row, strict=False):
            draw_episodes(axes, pick(runs_of(runs, name, game)), LONGEST)
            axes.set_title(look.plain(name), fontsize=look.SMALL - 0.5)
        axes_row[0].set_ylabel(look.plain(row[0][0]), fontsize=look.SMALL)
        for axes in axes_row[len(row) :]:
            axes.set_visible(False)
    return figure


def draw_real_granularities(records: Records) -> Figure | None:
    """Figure 1 from records: real episodes of each granularity on one game."""
    game, rows, episode = granularity_rows(plain_runs(records))
    if not rows:
        return None
    figure = draw_granularities(rows, episode)
    note = f"{game}: the last recorded episodes of one seed; the first shown may be cut."
    figure.text(0.035, 0.02, look.plain(note), size=look.SMALL, color=look.NOTE)
    return figure


def granularity_rows(runs: Sequence[Run]) -> tuple[str, list[Row], int]:
    """A game's name, strips of equal length, and the length of its typical episode.

    The first explore mode with two granularities or more, on the game with the longest
    episodes: there is most to see.
    """
    traced = [run for run in runs if len(table(run, "traces"))]
    best: tuple[str, list[Row], int] = ("", [], 0)
    for mode in modes_in(variants_of(traced)):
        for game in games_of(traced):
            chosen = representatives(variants_of(on_game(traced, game)), mode).values()
            rows, episode = strips_of(traced, chosen, game)
            if len(rows) > 1 and episode > best[2]:
                best = (game, rows, episode)
        if best[1]:
            break
    return best


def strips_of(
    runs: Sequence[Run], names: Iterable[str], game: str
) -> tuple[list[Row], int]:
    """The last recorded episodes of one seed of each variant; and how long they are."""
    episodes = {name: modes_of_episodes(runs_of(runs, name, game)[:1]) for name in names}
    if not episodes:
        return [], 0
    longest = max(int(np.median([len(one) for one in own])) for own in episodes.values())
    recorded = min(sum(map(len, own)) for own in episodes.values())
    steps = min(SHOWN_IN_A_ROW * longest, recorded)
    rows = [
        Row(label, name, last_steps(make_trace(own), steps))
        for label, (name, own) in zip("ABCDEFG", episodes.items(), strict=False)
    ]
    return rows, longest


def granularities_show(records: Records) -> str:
    """p_X of each strip."""
    game, rows, _ = granularity_rows(plain_runs(records))
    if not rows:
        return NEEDS_TRACES
    told = ", ".join(f"{row.variant} {row.trace.modes.mean():.2f}" for row in rows)
    return f"Share of explore steps in these strips ({game}): {told}."


def all_episodes_show(records: Records) -> str:
    """p_X of the recorded episodes of each variant."""
    runs = plain_runs(records)
    intra = [n for n, v in known(variants_of(runs)).items() if v.granularity == "intra"]
    found = {n: modes_of_episodes(run for run in runs if run.variant == n) for n in intra}
    told = [f"{name} {share(own):.2f}" for name, own in found.items() if own]
    if not told:
        return NEEDS_TRACES
    return f"Share of explore steps of all recorded episodes: {', '.join(told)}."


def blind_and_informed_show(records: Records) -> str:
    """How even the exploit periods are: their standard deviation over their mean."""
    runs = plain_runs(records)
    pairs = traced_pairs(runs)
    if not pairs:
        return NEEDS_PAIR
    sentences = []
    for game, pair in pairs.items():
        told = []
        for kind, name in zip(("blind", "informed"), pair, strict=True):
            own = runs_of(runs, name, game)
            lengths = [
                n for run in own if len(table(run, "traces")) for n in exploit_periods(run)
            ]
            p = share(modes_of_episodes(own))
            uneven = f"{np.std(lengths) / np.mean(lengths):.2f}" if lengths else "unknown"
            told.append(f"{kind} p_X {p:.2f}, unevenness {uneven}")
        sentences.append(f"{game}: {'; '.join(told)}.")
    shown = [
        run for game, pair in pairs.items() for n in pair for run in runs_of(runs, n, game)
    ]
    intro = (
        "Unevenness is the standard deviation of the exploit periods between two explore "
        "periods over their mean: 0 for a counter, about 1 for a coin, more for clusters."
    )
    return " ".join([intro, *sentences, *gap_notes(records, shown)])
