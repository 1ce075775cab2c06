"""How agents switched: the starting mode (figure 6), counting against a coin (figures 7 and
13), what bandits preferred (figure 14), and realised against target rates."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from sidequest.figures import style
from sidequest.figures.curves import bin_curves, draw_curves, evaluated_runs
from sidequest.figures.data import Plot, Records, arrange, distinct, groups, of_runs
from sidequest.figures.pairs import counter_and_coin, start_pairs
from sidequest.figures.statistics import FEWEST_SEEDS
from sidequest.switching.variants import MODES
from sidequest.wording import plural

_MOST_STARTS = 6
_MANY_GAMES = 20  # whose names have room below a figure when they are slanted
_EXAMPLE = "frostbite"  # the game of figure 7
_MOST_BANDITS = 8  # variants that have some
_MOST_GAMES = 7
_MOST_RATES = 9
_MOST_POINTS = 1_000  # of a panel; drawn at random
_TOLERANCE = 0.1
_ENOUGH_SWITCHES = 100  # their noise is 10% then, as wide as the tolerance
_HIGHEST = 2.0  # of the axis of rates
_BANDITS = {
    "start": "mode of an episode",
    "explore": "explore steps",
    "exploit": "exploit steps",
}
_MARKERS = "osD^vP*X"  # of a bandit's arms
_BINS = 40  # of frames, in which their probabilities are averaged


# The starting mode


def starting_modes(records: Records) -> Plot | None:
    """Plots a panel for each pair of variants, and both of them for each game (figure 6).

    Scores are shares of the best seed of the two; below 0 they are drawn at 0. Where no
    score is above 0 there is no such scale, and the game is named instead.
    """
    runs = evaluated_runs(records)
    pairs = start_pairs(distinct(runs, "variant"))
    parts = [
        arrange(runs, variant=pair).with_columns(pair=pl.lit(pair.first[:-2] + "·)"))
        for pair in pairs
    ]
    runs = pl.concat([runs.with_columns(pair="variant").clear(), *parts])
    cell = ("pair", "game")
    score, best = pl.col("score"), pl.max("score").over(cell)
    runs = runs.with_columns(share=(score / best).clip(0), best=best)
    runs = runs.filter(pl.col("variant").n_unique().over(cell) == 2)
    without = distinct(runs.filter(pl.col("best") <= 0), "game")
    runs = runs.filter(pl.col("best") > 0)
    if runs.is_empty():
        return None
    shown, notes = style.at_most(distinct(runs, "pair"), _MOST_STARTS)
    if without:
        notes.append(f"No share to show, as no score is above 0: {style.some(without)}.")
    panels = [runs.filter(pair=pair) for pair in shown]
    most = max(one["game"].n_unique() for one in panels)
    figure = style.draw_panels(
        "starting-mode",
        style.in_rows(panels, 2 if most <= _MANY_GAMES / 2 else 1),
        _draw_starts,
        2.2,
        ylabels=["share of the best seed"],
        keys=style.keys(distinct(pl.concat(panels), "variant")),
        notes=notes,
    )
    table = runs.group_by("variant", "game", maintain_order=True).agg(
        pl.len().alias("seeds"),
        pl.mean("score").alias("mean"),
        pl.min("share").alias("worst share"),
        pl.mean("share").alias("mean share"),
        pl.max("share").alias("best share"),
    )
    return Plot(figure, " ".join(map(_compare_starts, panels[:2])), table)


def _compare_starts(runs: pl.DataFrame) -> str:
    """Says where each start is ahead, and where the seeds' ranges are apart."""
    starts = pl.col("variant").str.ends_with("G)")
    exploit, explore = pl.col("score").filter(starts), pl.col("score").filter(~starts)
    apart = (explore.min() > exploit.max()) | (exploit.min() > explore.max())
    enough = pl.min_horizontal(exploit.len(), explore.len()) >= FEWEST_SEEDS
    games = runs.group_by("game").agg(
        ahead=explore.mean() > exploit.mean(), apart=pl.when(enough).then(apart)
    )
    said = (
        f"{runs['pair'][0]}: starting with exploration has the higher mean in "
        f"{games['ahead'].sum()} of {plural(len(games), 'game')}"
    )
    if judged := games["apart"].count():
        where = f"{games['apart'].sum()} of {judged} with {FEWEST_SEEDS} or more of each"
        said += f"; seeds do not overlap in {where}"
    return f"{said}."


def _draw_starts(axes: Axes, runs: pl.DataFrame) -> None:
    """Draws both variants of a pair for each game: exploit left, explore right."""
    games = distinct(runs, "game")
    for x, game in enumerate(games):
        for shift, own in zip((-0.17, 0.17), groups(runs, "variant"), strict=True):
            shares = own.filter(game=game)["share"].to_list()
            axes.vlines(x + shift, 0, sum(shares) / len(shares), colors="#dddddd", lw=5)
            style.draw_seeds(axes, x + shift, shares, own["variant"][0])
    axes.axhline(0.0, color=style.GREY, lw=0.6)
    axes.set_xlim(-0.6, len(games) - 0.4)
    axes.set_ylim(-0.06, 1.08)
    angle = 0 if len(games) <= 3 else 25 if len(games) <= _MANY_GAMES else 90
    look = {"rotation": angle, "ha": "right" if angle == 25 else "center"}
    axes.set_xticks(range(len(games)), [style.plain(game) for game in games], **look)
    axes.set_title(style.plain(runs["pair"][0]))


# Counting against a coin


def counter_vs_coin(records: Records) -> Plot | None:
    """Plots clouds of episodes and learning curves on one game, XU and XI (figure 7)."""
    parts = _counters_and_coins(records)
    games = [own["game"][0] for own in parts]
    shown = [_EXAMPLE] if _EXAMPLE in games else games[:1]
    chosen = [own for own in parts if own["game"][0] in shown]
    return _plot_clouds("count-and-coin", records, chosen)


def counter_vs_coin_all(records: Records) -> Plot | None:
    """Plots the same on all games, if there are several (figure 13)."""
    parts = _counters_and_coins(records)
    several = len({own["game"][0] for own in parts}) > 1
    return _plot_clouds("count-and-coin-all", records, parts if several else [])


def _counters_and_coins(records: Records) -> list[pl.DataFrame]:
    """Returns the runs of a counter and of its coin, for each explore mode and game."""
    runs = arrange(records.runs.filter("usual"), mode=[*MODES]).drop_nulls("mean_p_X")
    parts = []
    for own in groups(runs, "mode", "game"):
        for pair in counter_and_coin(distinct(own, "variant"))[:1]:
            parts.append(arrange(own, variant=pair).with_columns(budget="frames"))
    return parts


def _plot_clouds(name: str, records: Records, parts: list[pl.DataFrame]) -> Plot | None:
    """Plots a row for each part: both clouds, and both learning curves."""
    if not parts:
        return None
    runs, cell = pl.concat(parts), ["variant", "game"]
    episodes = of_runs(records.episodes, runs, *cell, "mode", "budget").drop_nulls("p_X")
    episodes = episodes.with_columns(explored=pl.col("rmed_X").fill_null(0) > 0)
    spread = pl.col("p_X").std(ddof=0).alias("spread of p_X")
    silent = (~pl.col("explored")).sum().alias("never explored")
    table = runs.select(cell).unique(maintain_order=True)
    measures = episodes.group_by(cell).agg(pl.len().alias("episodes"), silent, spread)
    table = table.join(measures, on=cell, maintain_order="left")
    episodes, clouds = episodes.filter("explored"), []

    def draw(axes: Axes, own: pl.DataFrame) -> None:
        mode, game, variant = own.select("mode", "game", "variant").row(0)
        if own["variant"].n_unique() > 1:
            draw_curves(axes, bin_curves(records, own, "game"), own)
            axes.set_ylabel("return")
            return
        both = episodes.filter(mode=mode, game=game)
        clouds.append(_draw_cloud(axes, both.filter(variant=variant)))
        if len(both):  # the two clouds can be compared only on the same axes
            rmed = both["rmed_X"].to_numpy()
            axes.set_xlim(rmed.min() / 1.5, max(1.0, rmed.max()) * 1.5)
        said = table.filter(variant=variant, game=game).row(0, named=True)
        never = f"; {said['never explored']:,} of {said['episodes']:,} never explored"
        title = f"spread of $p_X$ {said['spread of p_X']:.2f}"
        title += never if said["never explored"] else ""
        subject = f"{game}  {variant}"
        if len(subject) > 60:
            subject = f"{game}\n{variant}"
        title = style.fit(subject, 60) + "\n" + title
        axes.set_title(title, fontsize=style.SMALL - 0.5)

    figure = style.draw_panels(
        name,
        [[*groups(own, "variant"), own] for own in parts],
        draw,
        1.6 + 0.3 / len(parts),
        ylabels=["$p_X$"],
        keys=style.keys(distinct(runs, "variant")),
    )
    if points := next(filter(None, clouds), None):
        place = {"location": "bottom", "aspect": 60, "fraction": 0.03, "pad": 0.02}
        left = [axes for i, axes in enumerate(figure.axes) if i % 3 < 2]
        bar = figure.colorbar(points, ax=left, **place)
        bar.set_ticks([0, 1], labels=["start of training", "end"], fontsize=style.SMALL)
        bar.ax.set_xlim(0, 1)
    spreads = table["spread of p_X"].to_list()
    wider = sum(np.greater(spreads[1::2], spreads[::2]))
    caption = (
        f"p_X spreads more over episodes with the coin than with the counter in {wider} of "
        f"{plural(len(parts), 'comparison')}."
    )
    return Plot(figure, caption, table)


def _draw_cloud(axes: Axes, episodes: pl.DataFrame) -> PathCollection | None:
    """Draws rmed_X against p_X of episodes that explored; dark is early, light is late."""
    axes.set_ylim(-0.03, 1.05)
    style.use_log_axis(axes)
    axes.set_xlabel("rmed$_X$")
    if episodes.is_empty():
        return None
    chosen = np.random.default_rng(0).permutation(len(episodes))[:_MOST_POINTS]
    shown = episodes[chosen.tolist()]
    time = shown["frames"] / shown["budget"].clip(1)
    look = {"cmap": "plasma", "vmin": 0.0, "vmax": 1.1, "s": 5, "lw": 0, "alpha": 0.7}
    return axes.scatter(shown["rmed_X"], shown["p_X"], c=time, **look)


# What bandits preferred


def bandit_arms(records: Records) -> Plot | None:
    """Plots the probability of each bandit arm over training (figure 14).

    A row for each variant of the pairs that differ in their starting mode alone, as in the
    paper, or for each bandit of a study that has no such pair; a panel for each game.
    """
    runs = records.runs.filter("usual", pl.col("bandits") > 0).drop_nulls("mode")
    names = distinct(runs, "variant")
    paired = [name for pair in start_pairs(names) for name in pair]
    shown, notes = style.at_most(paired or names, _MOST_BANDITS)
    runs = arrange(runs, variant=shown)
    games, rest = style.at_most(distinct(runs, "game"), _MOST_GAMES)
    lines = _arm_probabilities(records, runs)
    lines = arrange(lines, variant=shown, bandit=[*_BANDITS])
    rows = lines.select("variant", "bandit").unique(maintain_order=True).rows()
    if not rows:
        return None
    unit, unit_name = style.frame_unit(lines["frames"].to_numpy().max())
    titles = {game: style.fit(game, 118 / len(games)) for game in games}
    tallest = max(one.count("\n") for one in titles.values())

    def draw(axes: Axes, cell: tuple[str, str, str]) -> None:
        name, bandit, game = cell
        own, title = lines.filter(variant=name, bandit=bandit), titles[game]
        if game == games[0]:
            lift = "\n" * (1 + tallest - title.count("\n"))  # above all titles of the row
            title = style.plain(f"{name}: {_choice(own)}") + lift + title
        _draw_arms(axes, own.filter(game=game), unit)
        axes.set_title(title, fontsize=style.SMALL - 0.5, loc="left")
        axes.set_xlabel(unit_name)
        axes.label_outer()

    figure = style.draw_panels(
        "bandit-arms",
        [[(name, bandit, game) for game in games] for name, bandit in rows],
        draw,
        1.5,
        ylabels=["probability"],
        options={"sharey": True, "sharex": "col"},
        notes=notes + rest,
    )
    for cells in style.in_rows(figure.axes, len(games)):
        _draw_arm_legend(cells)
    last = lines.filter(pl.col("frames") == pl.col("frames").max().over("variant", "game"))
    final = pl.col("probability").alias("final probability")
    table = last.select("variant", "game", "bandit", pl.col("name").alias("arm"), final)
    sentences, names = [], [name for name, _ in rows]
    for name, bandit in rows[:4]:
        ends = last.filter(variant=name, bandit=bandit).sort("probability")
        chance = pl.col("probability").round(2)
        tied = pl.when((chance == chance.max()).sum() > 1).then(pl.lit("none"))
        arms = ends.group_by("game").agg(tied.otherwise(pl.last("name")).alias("name"))
        arms = arms["name"].value_counts().sort("name")
        said = [f"{arm} in {number}" for arm, number in arms.rows()]
        which = f", {_choice(ends)}" if names.count(name) > 1 else ""
        sentences.append(f"{name}{which}: {style.listed(said)}")
    caption = f"Likeliest arm at the end, by games: {'; '.join(sentences)}."
    return Plot(figure, caption, table)


def _choice(lines: pl.DataFrame) -> str:
    """Returns what a bandit chooses, by the rows of its arms."""
    bandit = lines["bandit"][0]
    rate = bandit == "exploit" and lines["arm"].to_numpy().max() < 1
    return "switching rate" if rate else _BANDITS[bandit]


def _arm_probabilities(records: Records, runs: pl.DataFrame) -> pl.DataFrame:
    """Returns the mean over seeds of each arm's probability, as far as all of them are.

    `frames` are the ends of bins, and `name` is the arm as text.
    """
    cell, seeds = ["variant", "game", "bandit"], pl.col("run").n_unique()
    width = pl.col("frames").max().over("game") / _BINS
    table = (
        of_runs(records.bandits, runs, "variant", "game")
        .with_columns(frames=(pl.col("frames") / width).ceil() * width)
        .with_columns(seeds=seeds.over(cell))
        .group_by(*cell, "arm", "frames", "seeds")
        .agg(pl.mean("probability"), there=seeds)
        .filter(pl.col("there") == pl.col("seeds"))
        .sort(*cell, "arm", "frames")
    )
    names = [  # the bandit over whole episodes chooses a mode
        "GX"[int(arm)] if bandit == "start" else f"{arm:g}"
        for bandit, arm in table.select("bandit", "arm").rows()
    ]
    return table.with_columns(name=pl.Series(names, dtype=pl.String()))


def _draw_arms(axes: Axes, lines: pl.DataFrame, unit: float) -> None:
    """Draws the smallest arm dark and the largest light, each with its marker."""
    axes.set_ylim(0, 1)
    if lines.is_empty():
        style.say_empty(axes)
        axes.xaxis.set_visible(True)  # it is its column's
        return
    arms = groups(lines, "arm")
    axes.axhline(1 / len(arms), color=style.GREY, lw=0.7, ls=":")
    for i, arm in enumerate(arms):
        colour = colormaps["viridis"](0.9 * i / max(1, len(arms) - 1))
        look = {"color": colour, "marker": _MARKERS[i % len(_MARKERS)], "lw": 1.3, "ms": 3}
        look |= {"markevery": max(1, len(arm) // 6), "label": arm["name"][0]}
        axes.plot(arm["frames"] / unit, arm["probability"], **look)
    axes.set_xlim(left=0)


def _draw_arm_legend(cells: Sequence[Axes]) -> None:
    """Draws a legend right of a row, from whichever panel has lines."""
    found = [axes.get_legend_handles_labels() for axes in cells]
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    handles = max(found, key=lambda one: len(one[0]))
    cells[-1].legend(*handles, **place, handlelength=1.6, labelspacing=0.25)


# Realised against target rates


def switching_rates(records: Records) -> Plot | None:
    """Plots realised over target switching rates in the second half of training: 1 is the
    target. A panel for each game.

    A rate is the number of switches to explore for each exploit step, so episodes are
    weighed by theirs: switches of all episodes over exploit steps of all.
    """
    intra = pl.col("setting").str.starts_with("intra")
    runs = records.runs.filter("usual", intra)
    late = records.switches.filter("second_half")  # homeostasis has to settle first
    counts = late.group_by("run", "target_rate", maintain_order=True)
    rates = of_runs(counts.agg(pl.sum("made", "asked")), runs, "variant", "game", "seed")
    if rates.is_empty():
        return None
    rates = rates.with_columns(ratio=pl.col("made") / pl.col("asked"))
    names, targets = distinct(rates, "variant"), rates["target_rate"].to_numpy()
    shown, rest = style.at_most(distinct(rates, "game"), _MOST_RATES)

    def draw(axes: Axes, game: str) -> None:
        _draw_rates(axes, rates.filter(game=game), names)
        axes.set_xlim(targets.min() / 2.5, targets.max() * 2.5)
        axes.set_title(style.fit(game, 40))

    figure = style.draw_panels(
        "switching-rates",
        style.in_rows(shown, 3),
        draw,
        2.1,
        ylabels=["realised / target"],
        options={"sharey": True},
        keys=style.keys(names, ls=""),
        notes=rest,
    )
    table = rates.group_by("variant", "game", "target_rate", maintain_order=True).agg(
        pl.len().alias("seeds"),
        (pl.sum("made") / pl.sum("asked")).alias("realised / target"),
        pl.sum("made").alias("switches"),
    )
    enough = rates.filter(pl.col("asked") >= _ENOUGH_SWITCHES)["ratio"].to_numpy()
    caption = (
        f"At no rate were {_ENOUGH_SWITCHES} or more switches to be expected, so that the "
        "marks say little."
    )
    if len(enough):
        low, middle, high = np.quantile(enough, (0.1, 0.5, 0.9))
        caption = (
            f"At {len(enough)} of {plural(len(rates), 'mark')}, {_ENOUGH_SWITCHES} or "
            "more switches were to be expected. The median of their realised over target "
            f"rates is {middle:.2f}; four in five lie from {low:.2f} to {high:.2f}."
        )
    return Plot(figure, caption, table)


def _draw_rates(axes: Axes, rates: pl.DataFrame, names: Sequence[str]) -> None:
    """Draws a mark for each run and target rate of a game, with two standard deviations."""
    axes.axhspan(1 - _TOLERANCE, 1 + _TOLERANCE, color="#eeeeee", lw=0)
    axes.axhline(1.0, color=style.GREY, lw=0.8)
    for rate in rates.to_dicts():
        _, colour, marker = style.look(rate["variant"])
        # Beside each other by variant and seed, so that marks do not hide each other, and
        # near the rate that they belong to.
        apart = min(0.15, 1.2 / len(names))
        shift = apart * (names.index(rate["variant"]) - (len(names) - 1) / 2)
        x = rate["target_rate"] * math.exp(shift + 0.02 * (rate["seed"] % 5 - 2))
        ratio = rate["ratio"]
        if ratio > _HIGHEST:
            axes.plot(x, 0.97 * _HIGHEST, "^", color=colour, ms=4, mfc="white")
            continue
        if rate["made"] > 0:
            half = 2 * ratio / np.sqrt(rate["made"])
            ends = max(0, ratio - half), min(_HIGHEST, ratio + half)
            axes.vlines(x, *ends, colors=colour, lw=0.7, alpha=0.35)
        axes.plot(x, ratio, marker, color=colour, ms=3)
    axes.set_xscale("log")
    axes.set_ylim(-0.05, _HIGHEST)
    axes.set_xlabel("target rate, switches per exploit step")
