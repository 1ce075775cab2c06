"""How agents switched: the starting mode (figure 6), counting against a coin (figures 7 and
13), what bandits preferred (figure 14), and realised against target rates."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sidequest.figures import style
from sidequest.figures.curves import draw_curves, label_lines, some_styles, style_keys
from sidequest.figures.data import (
    Plot,
    Records,
    count,
    distinct,
    gap_notes,
    groups,
    of_runs,
    some,
)
from sidequest.figures.pairs import counter_and_coin, known, start_pairs
from sidequest.switching.variants import Variant

_MOST_STARTS = 6
_MOST_ROWS = 8  # of bandits, and of counters against coins
_MOST_GAMES = 4
_MOST_RATES = 6
_MOST_POINTS = 1_000  # of a panel; drawn at random
_COUNTER_OR_COIN = ("step count", "coin")
_TOLERANCE = 0.1
_HIGHEST = 2.0  # of the axis of rates
_ENOUGH = 100  # switches: the noise of their number is 10% then
_TRIGGERS = {
    "blind": ("coin", style.LINES[0]),
    "informed": ("value promise", style.LINES[1]),
    "informed:mismatch": ("action mismatch", style.LINES[2]),
    "informed:variance": ("value variance", style.LINES[3]),
}


def _has_rate(variant: Variant) -> bool:
    """Returns whether a variant ends its exploit periods at a rate."""
    return variant.exploit is not None and variant.exploit.unit == "rate"


# The starting mode


@style.styled
def starting_modes(records: Records) -> Plot | None:
    """Plots a panel for each pair of variants, two bars for each game (figure 6).

    Scores are shares of the greater of the two means. Where that is not above 0, there is
    no such scale, and the game is named instead.
    """
    runs = records.runs.filter("usual").drop_nulls("score")
    parts = []
    for pair in start_pairs(distinct(runs, "variant")):
        both = label_lines(runs, dict(zip("GX", pair, strict=True)))
        parts.append(both.with_columns(pair=pl.lit(" against ".join(pair))))
    if not parts:
        return None
    runs = pl.concat(parts).filter(pl.col("line").n_unique().over("pair", "game") == 2)
    score, cell = pl.col("score"), ["pair", "game"]
    table = (
        runs.group_by(*cell, start="line", maintain_order=True)
        .agg(mean=score.mean(), low=score.min(), high=score.max(), seeds=pl.len())
        .with_columns(best=pl.col("mean").max().over(cell))
    )
    without = distinct(table.filter(pl.col("best") <= 0), "game")
    table = table.filter(pl.col("best") > 0)
    table = table.with_columns(pl.col("mean", "low", "high") / pl.col("best")).drop("best")
    if table.is_empty():
        return None
    panels = groups(table, "pair")
    rows = style.in_rows(panels[:_MOST_STARTS], 2)
    gaps = gap_notes(records, runs.filter(pl.col("pair").is_in(distinct(table, "pair"))))
    more = len(panels[_MOST_STARTS:])
    notes = ["1 is the greater of the two means; thin lines: worst to best seed."]
    if without:
        notes.append(f"No share to show, as no score is above 0: {some(without)}.")
    if more:
        notes.append(f"{count(more, 'more pair')} not drawn.")
    keys = [
        Patch(facecolor=style.BLUE, label="starts in exploit mode (G)"),
        Patch(
            facecolor=style.MAGENTA,
            hatch="///",
            edgecolor="white",
            label="starts in explore mode (X)",
        ),
    ]
    notes, title = [*notes, *gaps], "The starting mode"
    figure = style.compose(2.2 * len(rows), title=title, keys=keys, notes=notes)
    for cells, row in zip(style.add_panels(figure, rows), rows, strict=True):
        for axes, own in zip(cells, row, strict=True):
            _draw_bars(axes, own)
            name = own["pair"][0].partition(" against ")[0]
            axes.set_title(style.plain(name.removesuffix("G)") + "·)"))
        cells[0].set_ylabel("share of the better mean")
    sentences = [_compare_starts(own) for own in panels]
    if without:
        sentences.append(f"Without a score above 0: {some(without)}.")
    return Plot(figure, " ".join([*sentences, *gaps]), table)


def _compare_starts(table: pl.DataFrame) -> str:
    """Says where each start is ahead, and where the seeds' ranges are apart."""
    exploit, explore = table.filter(start="G"), table.filter(start="X")
    exploit = explore.select("game").join(exploit, on="game", maintain_order="left")
    ahead = (explore["mean"] > exploit["mean"]).sum()
    apart = (explore["low"] > exploit["high"]) | (exploit["low"] > explore["high"])
    return (
        f"{table['pair'][0]}: starting with exploration has the higher mean in {ahead} of "
        f"{count(len(explore), 'game')}; seeds do not overlap in {apart.sum()}."
    )


def _draw_bars(axes: Axes, table: pl.DataFrame) -> None:
    """Draws two bars for each game: exploit left, explore right and hatched."""
    games = distinct(table, "game")
    looks = {"G": (-0.2, style.BLUE, None), "X": (0.2, style.MAGENTA, "///")}
    for x, game in enumerate(games):
        for one in table.filter(game=game).sort("start").to_dicts():
            shift, colour, hatch = looks[one["start"]]
            look = {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0}
            axes.bar(x + shift, one["mean"], 0.38, **look)
            if one["seeds"] > 1:
                axes.vlines(x + shift, one["low"], one["high"], colors=style.INK, lw=0.9)
    axes.axhline(1.0, color=style.GREY, lw=0.6, ls=(0, (4, 3)), zorder=0)
    axes.axhline(0.0, color=style.INK, lw=0.6)
    axes.set_xlim(-0.6, len(games) - 0.4)
    slanted = len(games) > 3
    look = {"rotation": 25 * slanted, "ha": "right" if slanted else "center"}
    axes.set_xticks(range(len(games)), [style.plain(game) for game in games], **look)


# Counting against a coin


@style.styled
def counter_vs_coin(records: Records) -> Plot | None:
    """Plots both clouds of episodes, and both learning curves (figures 7 and 13).

    A row for each game and explore mode in which both have episodes.
    """
    runs = records.runs.filter("usual").drop_nulls(["mode", "mean_p_X"])
    every = []
    for own in groups(runs, "mode", "game"):
        for pair in counter_and_coin(distinct(own, "variant"))[:1]:
            both = label_lines(own, dict(zip(_COUNTER_OR_COIN, pair, strict=True)))
            every.append(both.with_columns(budget="frames"))
    if not every:
        return None
    every.sort(key=lambda own: own["mode"][0], reverse=True)
    runs, parts = pl.concat(every), every[:_MOST_ROWS]
    cell = ["mode", "game", "line", "variant"]
    episodes = of_runs(records.episodes, runs, *cell, "budget").drop_nulls("p_X")
    episodes = episodes.with_columns(explored=pl.col("rmed_X").fill_null(0) > 0)
    table = episodes.group_by(cell).agg(
        spread=pl.col("p_X").std(ddof=0), silent=(~pl.col("explored")).sum()
    )
    order = runs.select(cell).unique(maintain_order=True)
    table = order.join(table, on=cell, maintain_order="left")
    gaps = gap_notes(records, runs)
    notes = [
        f"Each point is a training episode, at most {_MOST_POINTS:,} drawn at random; "
        "light points are late in training."
    ]
    if rest := [f"{own['variant'][0]} on {own['game'][0]}" for own in every[_MOST_ROWS:]]:
        notes.append(f"Not drawn: {some(rest)}.")
    styles = some_styles(_COUNTER_OR_COIN)
    keys = style_keys(styles, {kind: kind for kind in _COUNTER_OR_COIN})
    title = "Blind switching by step count and by coin"
    figure = style.compose(2.1 * len(parts), title=title, keys=keys, notes=[*notes, *gaps])
    grid = figure.subplots(len(parts), 3, squeeze=False)
    points = None
    for cells, own in zip(grid, parts, strict=True):
        mode, game = own["mode"][0], own["game"][0]
        clouds = episodes.filter(pl.col("explored"), mode=mode, game=game)
        pair = table.filter(mode=mode, game=game).to_dicts()
        for axes, one in zip(cells, pair, strict=False):
            cloud = clouds.filter(line=one["line"])
            points = _draw_cloud(axes, cloud, one["silent"]) or points
            title = style.plain(one["variant"]) + f"\nspread of $p_X$: {one['spread']:.2f}"
            axes.set_title(title, fontsize=style.SMALL)
            if len(clouds):  # the two clouds can be compared only on the same axes
                rmed = clouds["rmed_X"].to_numpy()
                axes.set_xlim(rmed.min() / 1.5, max(1.0, rmed.max()) * 1.5)
        cells[0].set_ylabel(style.plain(game) + "\n$p_X$")
        draw_curves(cells[2], records, own, styles)
        cells[2].set_title("return", fontsize=style.SMALL)
    if points is not None:
        place = {"location": "bottom", "aspect": 50, "pad": 0.02}
        bar = figure.colorbar(points, ax=grid[:, :2], **place)
        bar.set_label("time in training", fontsize=style.SMALL)
        bar.set_ticks([0, 1], labels=["start", "end"], fontsize=style.SMALL)
        bar.ax.set_xlim(0, 1)
    return Plot(figure, " ".join([_compare_spreads(table), *gaps]), table)


def _compare_spreads(table: pl.DataFrame) -> str:
    """Says how often the coin has the wider spread of p_X, and all spreads."""
    spreads = table.pivot("line", index=["mode", "game"], values="spread")
    wider = (spreads["coin"] > spreads["step count"]).sum()
    pairs = "; ".join(
        f"{mode} on {game} {counter:.2f} by count, {coin:.2f} by coin"
        for mode, game, counter, coin in spreads.iter_rows()
    )
    return (
        f"The standard deviation of p_X over episodes is greater with the coin in {wider} "
        f"of {len(spreads)} comparisons: {pairs}."
    )


def _draw_cloud(axes: Axes, episodes: pl.DataFrame, silent: int) -> PathCollection | None:
    """Draws rmed_X against p_X of episodes that explored; dark is early, light is late."""
    axes.set_ylim(-0.03, 1.05)
    if silent:
        text = f"{silent:,} episodes never explored"
        font = {"size": style.SMALL - 1, "color": style.NOTE, "ha": "right"}
        axes.text(0.97, 0.03, text, transform=axes.transAxes, **font)
    if episodes.is_empty():
        return None
    chosen = np.random.default_rng(0).permutation(len(episodes))[:_MOST_POINTS]
    shown = episodes[chosen.tolist()]
    time = shown["frames"] / shown["budget"].clip(1)
    look = {"cmap": "plasma", "vmin": 0.0, "vmax": 1.1, "s": 5, "lw": 0, "alpha": 0.7}
    points = axes.scatter(shown["rmed_X"], shown["p_X"], c=time, **look)
    style.use_log_axis(axes)
    axes.set_xlabel("rmed$_X$")
    return points


# What bandits preferred


@style.styled
def bandit_arms(records: Records) -> Plot | None:
    """Plots the probability of each bandit arm over training (figure 14).

    A row for each bandit, pairs of starting modes first; a panel for each game.
    """
    runs = records.runs.filter("usual", pl.col("bandits") > 0).drop_nulls("mode")
    names = distinct(runs, "variant")
    paired = [name for pair in start_pairs(names) for name in pair]
    variants = known(dict.fromkeys([*paired, *names]))
    every = [(name, bandit) for name in variants for bandit in variants[name].bandits()]
    rows = every[:_MOST_ROWS]
    if not rows:
        return None
    runs = runs.filter(pl.col("variant").is_in([name for name, _ in rows]))
    games = distinct(runs, "game")
    shown = games[:_MOST_GAMES]
    table = _arm_probabilities(records, runs)
    gaps = gap_notes(records, runs)
    more = len(every) - len(rows)
    left_out = [*([count(more, "bandit")] if more else []), *games[_MOST_GAMES:]]
    notes = [
        "Means over seeds. Dotted: the uniform choice that every bandit begins with.",
        *([f"Not drawn: {some(left_out, 8)}."] if left_out else []),
        *gaps,
    ]
    title = "What the bandits preferred over training"
    figure = style.compose(1.7 * len(rows), title=title, notes=notes)
    grid = figure.subplots(len(rows), len(shown), squeeze=False)
    sentences = []
    for cells, (name, bandit) in zip(grid, rows, strict=True):
        lines = table.filter(variant=name, bandit=bandit)
        for axes, game in zip(cells, shown, strict=True):
            _draw_arms(axes, lines.filter(game=game))
            axes.set_title(style.plain(game), fontsize=style.SMALL, loc="left")
        chooses = {"start": "mode of an episode", "explore": "explore steps"}
        rate = _has_rate(variants[name])
        chooses["exploit"] = "switching rate" if rate else "exploit steps"
        header = style.plain(f"{name}: {chooses[bandit]}\n{shown[0]}")
        cells[0].set_title(header, fontsize=style.SMALL, loc="left")
        cells[0].set_ylabel("probability")
        _draw_arm_legend(list(cells))
        likeliest = []
        for own in groups(lines, "game"):
            last = own.filter(pl.col("frames") == pl.col("frames").max())
            best = last.sort("probability", descending=True, maintain_order=True)
            arm, probability = best.select("name", "probability").row(0)
            likeliest.append(f"{own['game'][0]} {arm} ({probability:.2f})")
        sentences.append(
            f"{name}, bandit `{bandit}`, likeliest arm at the end: {', '.join(likeliest)}."
        )
    return Plot(figure, " ".join([*sentences, *gaps]), table)


def _arm_probabilities(records: Records, runs: pl.DataFrame) -> pl.DataFrame:
    """Returns the mean over seeds of each arm's probability, up to the shortest run."""
    bandits = of_runs(records.bandits, runs, "variant", "game").sort("run", "arm", "frames")
    cell = ("variant", "game", "bandit")
    parts = []
    for own in groups(bandits, *cell):
        shortest = own.group_by("run").agg(pl.col("frames").unique().sort())
        frames = min(shortest["frames"].to_list(), key=len)
        for arm in own["arm"].unique().sort():
            seeds = groups(own.filter(arm=arm), "run")
            lines = [
                np.interp(frames, seed["frames"], seed["probability"]) for seed in seeds
            ]
            line = own.select(*cell).row(0, named=True) | {"arm": arm, "name": f"{arm:g}"}
            if line["bandit"] == "start":  # the bandit over whole episodes chooses a mode
                line["name"] = "GX"[int(arm)]
            line |= {"frames": frames, "probability": np.mean(lines, axis=0)}
            parts.append(pl.DataFrame(line))
    return pl.concat(parts)


def _draw_arms(axes: Axes, lines: pl.DataFrame) -> None:
    """Draws the least arm dark and the greatest light, each with its marker."""
    axes.set_ylim(0, 1)
    if lines.is_empty():
        style.say_empty(axes)
        return
    unit, name = style.frame_unit(lines["frames"].to_numpy().max())
    arms = groups(lines, "arm")
    axes.axhline(1 / len(arms), color=style.GREY, lw=0.7, ls=":")
    for i, arm in enumerate(arms):
        axes.plot(
            arm["frames"] / unit,
            arm["probability"],
            color=colormaps["viridis"](0.9 * i / max(1, len(arms) - 1)),
            marker=style.LINES[i % len(style.LINES)][1],
            markersize=3,
            markevery=max(1, len(arm) // 6),
            lw=1.3,
            label=arm["name"][0],
        )
    axes.set_xlim(left=0)
    axes.set_xlabel(name)


def _draw_arm_legend(cells: Sequence[Axes]) -> None:
    """Draws a legend right of a row, from whichever panel has lines."""
    found = [axes.get_legend_handles_labels() for axes in cells]
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    handles = max(found, key=lambda one: len(one[0]))
    cells[-1].legend(*handles, **place, handlelength=1.6, labelspacing=0.25)


# Realised against target rates


@style.styled
def switching_rates(records: Records) -> Plot | None:
    """Plots realised over target switching rates: 1 is the target. A panel for each game.

    A rate is the number of switches to explore for each exploit step, so episodes are
    weighed by theirs: switches of all episodes over exploit steps of all.
    """
    runs = records.runs.filter("usual")
    triggers = {
        name: variant.trigger
        for name, variant in known(distinct(runs, "variant")).items()
        if variant.granularity == "intra" and _has_rate(variant)
    }
    runs = runs.filter(pl.col("variant").is_in(list(triggers)))
    counts = records.switches.group_by("run", "target_rate", maintain_order=True)
    table = of_runs(counts.agg(pl.sum("made", "asked")), runs, "variant", "game", "seed")
    if table.is_empty():
        return None
    table = table.with_columns(
        trigger=pl.col("variant").replace_strict(triggers),
        ratio=pl.col("made") / pl.col("asked"),
    )
    kinds = [kind for kind in _TRIGGERS if kind in distinct(table, "trigger")]
    keys = []
    for kind in kinds:
        name, (colour, marker) = _TRIGGERS[kind]
        keys.append(Line2D([], [], color=colour, marker=marker, ls="", label=name))
    games = distinct(table, "game")
    shown, rest = games[:_MOST_RATES], games[_MOST_RATES:]
    gaps = gap_notes(records, runs.filter(pl.col("run").is_in(table["run"])))
    notes = [
        "One mark for each run and target rate. Band: within 10% of the target. Bars: two "
        "standard deviations of as many independent switches. Triangles: off the scale.",
        *([f"Not drawn: {', '.join(rest)}."] if rest else []),
        *gaps,
    ]
    rows = style.in_rows(shown, 3)
    title = "Realised switching rate as a multiple of the target"
    figure = style.compose(2.1 * len(rows), title=title, keys=keys, notes=notes)
    targets = table["target_rate"].to_numpy()
    for cells, row in zip(style.add_panels(figure, rows, sharey=True), rows, strict=True):
        for axes, game in zip(cells, row, strict=True):
            _draw_rates(axes, table.filter(game=game), kinds)
            axes.set_xlim(targets.min() / 2.5, targets.max() * 2.5)
            axes.set_title(style.plain(game))
        cells[0].set_ylabel("realised / target")
    sentences = ["Runs at a target rate with at least 100 switches."]
    for kind in kinds:
        name, _ = _TRIGGERS[kind]
        enough = table.filter(pl.col("made") >= _ENOUGH, trigger=kind)
        close = enough.filter((pl.col("ratio") - 1).abs() <= _TOLERANCE)
        if len(enough):
            cases = count(len(enough), "case")
            sentences.append(f"{name}: {len(close)} of {cases} within 10%.")
        else:
            sentences.append(f"{name}: no case has 100 switches yet.")
    return Plot(figure, " ".join([*sentences, *gaps]), table)


def _draw_rates(axes: Axes, table: pl.DataFrame, kinds: Sequence[str]) -> None:
    """Draws a mark for each run and target rate of a game, with two standard deviations."""
    axes.axhspan(1 - _TOLERANCE, 1 + _TOLERANCE, color="#eeeeee", lw=0)
    axes.axhline(1.0, color=style.GREY, lw=0.8)
    for rate in table.to_dicts():
        _, (colour, marker) = _TRIGGERS[rate["trigger"]]
        # Beside each other by trigger and seed, so that marks do not hide each other.
        shift = 1.25 ** (kinds.index(rate["trigger"]) - (len(kinds) - 1) / 2)
        x, ratio = rate["target_rate"] * shift * 1.03 ** (rate["seed"] % 5), rate["ratio"]
        if ratio > _HIGHEST:
            axes.plot(x, 0.97 * _HIGHEST, "^", color=colour, ms=4, mfc="white")
            continue
        if rate["made"] > 0:
            half = 2 * ratio / np.sqrt(rate["made"])
            ends = max(0, ratio - half), min(_HIGHEST, ratio + half)
            axes.vlines(x, *ends, colors=colour, lw=0.7, alpha=0.6)
        axes.plot(x, ratio, marker, color=colour, ms=3.5)
    axes.set_xscale("log")
    axes.set_ylim(0, _HIGHEST)
    axes.set_xlabel("target rate, switches an exploit step")
