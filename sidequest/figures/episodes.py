"""What whole episodes looked like: 15 drawn at random for each variant (figures 5 and 12),
and the granularities side by side (figure 1)."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from sidequest.figures import illustrations, pairs, style
from sidequest.figures.curves import bin_curves, draw_curves
from sidequest.figures.data import (
    Plot,
    Records,
    arrange,
    distinct,
    exploit_periods,
    groups,
    of_runs,
    read_traces,
)
from sidequest.wording import plural

_EPISODES = 15
_LONGEST = 2_000  # steps shown of an episode: with more, a period of 10 is no longer seen
_GAMES = ("frostbite", "gravitar")  # of figure 5
_MOST_GAMES = 4  # of figure 5, where a study has others
_SETTINGS = (  # of figure 12
    *("intra(10,blind,100,G)", "intra(10,blind,1000,G)"),
    *("intra(10,informed,0.01,G)", "intra(10,informed,0.001,G)"),
)
_SHOWN_IN_A_ROW = 5  # episodes of a strip of figure 1


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
    steps = min(_SHOWN_IN_A_ROW * typical, int(recorded), _LONGEST)
    rows = []
    for name in names:
        later = pl.col("length").cum_sum(reverse=True) - pl.col("length")
        newest = episodes.filter(variant=name).filter(later < steps)
        modes = read_traces(records, newest, "modes")["modes"].to_list()
        strip = illustrations.Strip(*(one[-steps:] for one in _make_strip(modes)))
        rows.append(illustrations.Row(style.look(name).letter, name, strip))
    figure = illustrations.draw_granularities(rows, typical)
    game = episodes["game"][0]
    note = f"{game}: the last recorded episodes of one seed; the first shown may be cut."
    figure.text(0.035, 0.02, style.plain(note), size=style.SMALL, color=style.NOTE)
    shares = episodes.group_by("variant", maintain_order=True).agg(p_X=_share())
    table = arrange(shares, variant=names)
    ranked = table.sort("p_X", maintain_order=True).rows()
    (least, low), (most, high) = ranked[0], ranked[-1]
    caption = (
        f"Episodes of one seed on {game}. Over the last {_EPISODES} that were recorded of "
        f"each, the share of explore steps ranges from {low:.2f} ({least}) to {high:.2f} "
        f"({most})."
    )
    return Plot(figure, caption, table)


def _longest_episodes(records: Records) -> tuple[list[str], pl.DataFrame]:
    """Returns a variant for each granularity, and the newest episodes of one seed of each.

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
                # Of the agent as it is now: episodes of the first minutes may be shorter.
                newest = episodes.group_by("variant", maintain_order=True).tail(_EPISODES)
                found.append((chosen, newest))
        if found:
            return max(found, key=lambda one: _typical_length(one[1]))
    return [], records.traces.clear()


def _typical_length(episodes: pl.DataFrame) -> int:
    """Returns the median length of the episodes of the variant where it is largest."""
    medians = episodes.group_by("variant").agg(pl.median("length"))
    return int(medians["length"].to_numpy().max())


def _make_strip(episodes: Sequence[str]) -> illustrations.Strip:
    """Returns episodes one after the other, as strips are drawn from."""
    modes = np.array([letter == "X" for letter in "".join(episodes)], bool)
    first = np.zeros(len(modes), bool)
    first[np.cumsum([0, *map(len, episodes[:-1])])] = True
    return illustrations.Strip(modes, first)


def blind_and_informed(records: Records) -> Plot | None:
    """Draws, for each game, both kinds of episodes and both learning curves (figure 5)."""
    runs = _traced_runs(records)
    games = distinct(runs, "game")
    parts = []
    for game in [game for game in _GAMES if game in games] or games:
        own = runs.filter(game=game)
        for pair in pairs.blind_and_informed(distinct(own, "variant"))[:1]:
            parts.append(arrange(own, variant=pair))
    if not parts:
        return None
    parts = parts[:_MOST_GAMES]
    runs = pl.concat(parts)
    cells = groups(runs, "game", "variant")
    table = pl.DataFrame([_describe_episodes(records, own) for own in cells])

    def draw(axes: Axes, own: pl.DataFrame) -> None:
        game, variant = own["game"][0], own["variant"][0]
        if own["variant"].n_unique() > 1:
            draw_curves(axes, bin_curves(records, own, "game"), own)
            axes.set_title("return", fontsize=style.SMALL)
        else:
            share = table.filter(game=game, variant=variant)["p_X"][0]
            _draw_episodes(axes, _pick(records, own))
            title = style.plain(f"{variant}\n") + f"$p_X$ = {share:.2f}"
            axes.set_title(title, fontsize=style.SMALL)

    figure = style.draw_panels(
        "episodes",
        [[*groups(own, "variant"), own] for own in parts],
        draw,
        2.2,
        ylabels=[style.plain(own["game"][0]) for own in parts],
        options={"width_ratios": [1.15, 1.15, 1]},
        keys=style.keys(distinct(runs, "variant")),
    )
    uneven = [own["unevenness"].to_list() for own in groups(table, "game")]
    both = [one for one in uneven if None not in one]
    more = sum(informed > blind for blind, informed in both)
    caption = (
        f"Informed explore periods are less evenly spaced than blind ones on {more} of "
        f"{plural(len(both), 'game')} with several periods in an episode."
        if both
        else "On no game did both have several explore periods in an episode, so that how "
        "evenly they are spaced cannot be compared."
    )
    caption += (
        " Unevenness is the standard deviation of exploit periods over their mean: 0 for a "
        "counter, about 1 for a coin, more for clusters."
    )
    return Plot(figure, caption, table)


def _describe_episodes(records: Records, runs: pl.DataFrame) -> dict:
    """Returns p_X of all recorded episodes of runs, and how uneven exploit periods are."""
    traces = of_runs(records.traces, runs)
    steps = exploit_periods(read_traces(records, traces, "modes"))["steps"].to_numpy()
    return {
        **runs.select("game", "variant").row(0, named=True),
        "p_X": traces.select(_share()).item(),
        "unevenness": steps.std() / steps.mean() if len(steps) else None,
    }


def all_episodes(records: Records) -> Plot | None:
    """Draws blind and informed episodes at two rates, a row for each game (figure 12).

    A study that lacks these settings shows its first four intra-episodic ones.
    """
    runs = _traced_runs(records).drop_nulls("mode")
    intra = pl.col("setting").str.starts_with("intra")
    runs = runs.filter(intra).filter(pl.col("mode") == pl.col("mode").first())
    settings = distinct(runs, "setting")
    columns = [one for one in _SETTINGS if one in settings]
    columns = columns if len(columns) > 1 else settings[: len(_SETTINGS)]
    runs = arrange(runs, setting=columns)
    if runs.is_empty():
        return None
    games = distinct(runs.sort("run"), "game")

    def draw(axes: Axes, cell: tuple[str, str]) -> None:
        game, setting = cell
        own = runs.filter(game=game, setting=setting)
        if own.is_empty():
            style.say_empty(axes)
        else:
            _draw_episodes(axes, _pick(records, own))
        if game == games[0]:
            name = style.plain(f"{runs['mode'][0]}-{setting}")
            axes.set_title(name, fontsize=style.SMALL)
        if setting == columns[0]:
            axes.set_ylabel(style.plain(game))
        if game != games[-1]:
            axes.set_xlabel("")

    panels = [[(game, setting) for setting in columns] for game in games]
    figure = style.draw_panels("episodes-all", panels, draw, 1.45)
    episodes = of_runs(records.traces, runs, "variant", "game")
    cells = episodes.group_by("variant", "game", maintain_order=True)
    table = cells.agg(p_X=_share(), episodes=pl.len())
    share = episodes.group_by("variant").agg(p_X=_share()).sort("p_X", "variant").rows()
    (least, low), (most, high) = share[0], share[-1]
    ranges = f"ranges from {low:.2f} ({least}) to {high:.2f} ({most})"
    caption = (
        f"The share of explore steps {ranges if len(share) > 1 else f'is {low:.2f}'}, "
        "over all recorded episodes."
    )
    return Plot(figure, caption, table)


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
    """Draws one row an episode, first at the top; x is the step within the episode."""
    shown = [modes[:longest] for modes in episodes]
    for row, modes in enumerate(shown):
        illustrations.draw_strip(axes, _make_strip([modes]), row)
    axes.set_xlim(0, max(map(len, shown), default=1))
    axes.set_ylim(_EPISODES - 0.4, -0.6)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("step")
    style.hide_sides(axes, "left")
