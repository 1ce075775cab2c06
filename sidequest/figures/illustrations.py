"""Illustrations that need no runs: the paper's figures 1 and 2, the README's picture, and
one variant's example in detail.

They draw traces: what the real controllers do in a made-up game. A trace is shown as a
*strip*, one row of bars in the colours of the modes.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sidequest.figures import style
from sidequest.switching import simulation
from sidequest.switching.variants import parse
from sidequest.types import Trace
from sidequest.wording import plural

_EXPLOIT_HEIGHT = 0.5  # of a row; the lower bar is the cue for those who see no hue
_EXPLORE_HEIGHT = 0.8
_WARM_UP = 20  # episodes played before those shown, so that averages have settled
_GAP = 1.3  # rows, for the title of a group
_LETTER = 0.602 * style.SMALL / 72  # inches: a letter's width in the font of the names
_TO_EXPLORE: Any = {"marker": "^", "ls": "", "color": style.MAGENTA, "ms": 4.5}
_TO_EXPLOIT: Any = {"marker": "v", "ls": "", "color": style.BLUE, "ms": 4.5}
_REWARD_ROW = -0.75  # where the marks of rewards lie, below the strip at 0


class Scene(NamedTuple):
    """One variant in a made-up game."""

    variant: str
    label: str = ""
    seed: int = 0
    late: bool = False
    """Whether the agent is unsure late in each episode, or else in a few patches."""


class Stage(NamedTuple):
    """The made-up game of an illustration, and who plays it (assets/illustrations.toml)."""

    episode: int
    """Steps of an episode."""
    shown: int
    """Episodes that are drawn."""
    scenes: Sequence[Scene]
    signals: Sequence[Scene]
    """Whose trigger's signal is drawn."""
    groups: Sequence[dict[str, Any]]
    """`variants` that differ in one `choice` of the four in their names; and a `title`."""

    @property
    def steps(self) -> int:
        """Returns the number of steps that are drawn."""
        return self.episode * self.shown


class Strip(NamedTuple):
    """Holds what a strip shows of a trace: modes (True explores), and first steps."""

    modes: np.ndarray
    is_first: np.ndarray


class Row(NamedTuple):
    """A strip with its label."""

    label: str
    variant: str
    trace: Strip | Trace


def read_stage(name: str) -> Stage:
    """Returns what an illustration shows."""
    content = (files("sidequest.figures") / "assets" / "illustrations.toml").read_text()
    stage = tomllib.loads(content)[name]
    for kind in ("scenes", "signals"):
        stage[kind] = [Scene(**scene) for scene in stage.get(kind, [])]
    return Stage(**{"groups": [], **stage})


def draw_all() -> Iterator[tuple[str, Figure]]:
    """Yields the paper's illustrations with the names of their files."""
    stage = read_stage("figure-1")
    yield "figure-1", draw_granularities(_play_scenes(stage), stage.episode)
    for name in ("figure-2", "figure-2-appendix"):
        yield name, _draw_design_space(read_stage(name))
    yield "readme", _draw_in_brief(read_stage("readme"))


def play(stage: Stage, scene: Scene) -> Trace:
    """Runs the real controllers through a scene; returns the episodes to be shown."""
    unsure = surprise(stage, late=scene.late)
    trace = simulation.simulate(
        parse(scene.variant),
        steps=len(unsure),
        episode=stage.episode,
        seed=scene.seed,
        surprise=unsure,
    )
    return Trace(*(column[-stage.steps :] for column in trace))


def _play_scenes(stage: Stage) -> list[Row]:
    return [Row(one.label, one.variant, play(stage, one)) for one in stage.scenes]


def surprise(stage: Stage, *, late: bool) -> Float[np.ndarray, "T"]:
    """Returns how unsure the agent is at each step: the same in every episode."""
    place = (np.arange(stage.episode) + 0.5) / stage.episode
    if late:
        one = 1.8 * place**3
    else:
        bumps = ((0.22, 0.7), (0.5, 0.35), (0.76, 1.0))
        one = sum(size * np.exp(-(((place - at) / 0.035) ** 2)) for at, size in bumps)
    return np.tile(np.asarray(one, np.float32), _WARM_UP + stage.shown)


def _explore_periods(trace: Strip | Trace) -> list[tuple[int, int]]:
    """Returns the first step and the length of each explore period, in order.

    An episode's end ends a period: `GGXX|XG` has (2, 2) and (4, 1).
    """
    starts = np.flatnonzero(np.append(True, np.diff(trace.modes)) | trace.is_first)
    lengths = np.diff(np.append(starts, len(trace.modes)))
    periods = zip(starts.tolist(), lengths.tolist(), strict=True)
    return [(start, length) for start, length in periods if trace.modes[start]]


def draw_strip(axes: Axes, trace: Strip | Trace, row: float = 0.0) -> None:
    """Draws a strip of height 1 around y = `row`; step t fills x from t to t + 1."""
    # One blue bar lies under all of it: side by side, bars would show seams.
    for bars, height, colour in (
        ([(0, len(trace.modes))], _EXPLOIT_HEIGHT, style.BLUE),
        (_explore_periods(trace), _EXPLORE_HEIGHT, style.MAGENTA),
    ):
        axes.broken_barh(bars, (row - height / 2, height), facecolors=colour, linewidth=0)
    starts = np.flatnonzero(trace.is_first)
    line = {"colors": style.INK, "linewidth": 1.2, "zorder": 3}
    if (starts > 0).any():
        axes.vlines(starts[starts > 0], row - 0.5, row + 0.5, **line)


def _frame_strips(axes: Axes, steps: int) -> None:
    axes.set_xlim(0, steps)
    style.hide_sides(axes, "left", "bottom")
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel("steps")


def _add_legend(on: Axes | Figure, *, switches: bool = False, **placement: Any) -> None:
    """Adds a legend of the colours of both modes and, if asked, the marks of switches."""
    keys: list[Any] = [
        Patch(color=style.BLUE, label="exploit (G)"),
        Patch(color=style.MAGENTA, label="explore (X)"),
    ]
    if switches:
        keys += [
            Line2D([], [], label="switch to explore", **_TO_EXPLORE),
            Line2D([], [], label="switch to exploit", **_TO_EXPLOIT),
        ]
    spacing = {"ncols": len(keys), "handlelength": 1.2, "columnspacing": 1.4}
    on.legend(handles=keys, **spacing, **placement)


def _place_points(rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """Returns (p_X, med_X) by label; experiment-level periods outlast episodes."""
    return {
        row.label: simulation.characteristics(
            row.trace, cut="experiment-level" not in row.variant
        )
        for row in rows
    }


@style.styled
def draw_granularities(rows: Sequence[Row], episode: int) -> Figure:
    """Draws figure 1: when agents explore, and where that lies on the characteristic plot.

    `episode` is the length of a typical one.
    """
    figure = style.new_figure(10.0, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.55, 1.0])
    figure.subplots_adjust(left=0.035, right=0.985, top=0.91, bottom=0.13, wspace=0.14)
    pitch = 1.5  # leaves room for a name above each strip
    for y, row in enumerate(rows):
        draw_strip(left, row.trace, pitch * y)
        left.text(0, pitch * y - 0.72, row.variant, size=6, family="monospace", va="center")
    left.set_ylim(pitch * len(rows) - 0.9, -1.0)
    _frame_strips(left, len(rows[0].trace.modes))
    font = {"size": style.LARGE, "weight": "bold"}
    left.set_yticks(pitch * np.arange(len(rows)), [row.label for row in rows], **font)
    left.set_xlabel("steps; black lines are episode boundaries")
    _add_legend(left, loc="lower right", bbox_to_anchor=(1.0, 0.99), borderpad=0)
    _draw_characteristics(right, _place_points(rows), episode)
    return figure


def _draw_characteristics(
    axes: Axes, points: Mapping[str, tuple[float, float]], episode: int
) -> None:
    """Plots p_X against med_X, with the area that only intra-episodic switching reaches.

    A period of n explore steps is followed by one exploit step or more, which bounds p_X
    by n / (n + 1): the corner above that is empty.
    """
    lengths = np.geomspace(1.25, episode / 1.25, 200)
    axes.fill_between(lengths, 0.02, lengths / (lengths + 1), color=style.YELLOW, lw=0)
    names = {"step-level": 1, "intra-episodic": float(np.sqrt(episode))}
    names |= {"episode-level": episode, "experiment": 6 * episode}
    for name, x in names.items():
        # Of long episodes it would meet its right neighbour, of short ones its left one.
        side = "right" if x == episode >= 100 else "center"
        axes.text(x, 1.09, name, size=style.SMALL, color=style.GREY, ha=side)
    for x in (1, episode):
        axes.axvline(x, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    places = [(one, style.INK, med, p) for one, (p, med) in points.items() if p > 0]
    for _, _, median, p in places:
        axes.plot(median, p, "o", color=style.INK, markersize=5)
    style.use_log_axis(axes)
    axes.set_xlim(0.7, 12 * episode)
    axes.set_ylim(-0.03, 1.07)
    axes.set_xlabel("med$_X$, steps of a typical explore period", size=style.MEDIUM)
    axes.set_ylabel("$p_X$, share of explore steps", size=style.MEDIUM)
    style.write_letters(axes, places, style.LARGE)


@style.styled
def _draw_design_space(stage: Stage) -> Figure:
    """Draws figure 2: how each choice in the name of a variant changes when it explores."""
    names = [variant for group in stage.groups for variant in group["variants"]]
    lines = len(names) + _GAP * len(stage.groups)
    heights = [*[0.45] * len(stage.signals), 0.21 * lines]
    wide, tall = 8.6, 0.6 + sum(heights)
    figure = style.new_figure(wide, tall)
    grid = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    left = (0.25 + _LETTER * max(map(len, names))) / wide
    top, bottom = 1 - 0.35 / tall, 0.25 / tall
    figure.subplots_adjust(left=left, right=0.985, top=top, bottom=bottom, hspace=0.12)
    for axes, signal in zip(grid, stage.signals, strict=False):
        _draw_area(axes, signal.label, play(stage, signal))
    axes, y = grid[-1], 0.0
    for group in stage.groups:
        y += _GAP
        font = {"size": style.SMALL, "style": "italic", "va": "center"}
        axes.text(0, y - 0.8, group["title"], **font)
        for variant in group["variants"]:
            draw_strip(axes, play(stage, Scene(variant)), y)
            _write_name(axes, variant, y, group["choice"])
            y += 1
    _frame_strips(axes, stage.steps)
    axes.set_ylim(y - 0.4, 0)
    title = "XU-intra($n_X$, trigger, $n_G$, start)"
    figure.text(0.02, 1 - 0.22 / tall, title, size=style.LARGE, weight="bold")
    _add_legend(figure, loc="upper right", bbox_to_anchor=(0.99, 1.0))
    return figure


def _write_name(axes: Axes, name: str, y: float, choice: int) -> None:
    """Writes a variant's name left of its strip, with one of its four choices in bold."""
    before, inside = name.split("(")
    tokens = inside.removesuffix(")").split(",")
    start = len(before) + 1 + sum(len(token) + 1 for token in tokens[:choice])
    end = start + len(tokens[choice])
    plain = name[:start] + " " * (end - start) + name[end:]
    # Right-aligned in a font of fixed width, two texts lie letter over letter.
    bold = name[start:end] + "\N{NO-BREAK SPACE}" * (len(name) - end)
    place = {"x": -0.01, "y": y, "transform": axes.get_yaxis_transform()}
    font = {"size": style.SMALL, "family": "monospace", "ha": "right", "va": "center"}
    axes.text(s=plain, color=style.GREY, **place, **font)
    axes.text(s=bold, color=style.INK, weight="bold", **place, **font)


def _draw_area(axes: Axes, label: str, trace: Trace) -> None:
    """Draws the signal of an informed trigger as an area."""
    signal = np.nan_to_num(trace.signal)
    axes.fill_between(np.arange(len(signal)) + 0.5, signal, color=style.GREY, linewidth=0)
    axes.set_ylim(0, 1.05 * signal.max())
    axes.set_yticks([])
    place = {"rotation": 0, "ha": "right", "va": "center", "labelpad": 6}
    axes.set_ylabel(label, **place)
    style.hide_sides(axes, "left")
    axes.tick_params(bottom=False, labelbottom=False)


@style.styled
def _draw_in_brief(stage: Stage) -> Figure:
    """Draws the README's picture: one episode, explored in four ways."""
    rows = _play_scenes(stage)
    figure = style.new_figure(8.0, 2.5)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[0.9, len(rows)])
    figure.subplots_adjust(left=0.285, right=0.985, top=0.87, bottom=0.07, hspace=0.05)
    (signal,) = stage.signals
    _draw_area(top, signal.label, play(stage, signal))
    place = {"x": -0.015, "transform": bottom.get_yaxis_transform()}
    place |= {"ha": "right", "va": "center"}
    name = {"size": 6, "family": "monospace", "color": style.GREY}
    for y, row in enumerate(rows):
        draw_strip(bottom, row.trace, y)
        bottom.text(y=y - 0.16, s=row.label, size=style.MEDIUM, weight="bold", **place)
        bottom.text(y=y + 0.24, s=row.variant, **name, **place)
    bottom.set_ylim(len(rows) - 0.5, -0.6)
    _frame_strips(bottom, stage.steps)
    bottom.set_xlabel("one episode")
    title = {"s": "When should an agent explore?", "size": style.LARGE, "weight": "bold"}
    figure.text(0.015, 0.93, **title)
    _add_legend(figure, loc="upper right", bbox_to_anchor=(0.99, 1.0))
    return figure


@style.styled
def draw_example(trace: Trace, name: str) -> Figure:
    """Draws one variant's example over time: signal (if it has one), probability, modes."""
    informed = not np.isnan(trace.signal).all()
    heights = [1.4, 1.4, 1.2] if informed else [1.4, 1.2]
    tall = 1.0 + sum(heights)
    figure = style.new_figure(9.0, tall)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    top, bottom = 1 - 0.55 / tall, 0.42 / tall
    figure.subplots_adjust(left=0.09, right=0.98, top=top, bottom=bottom, hspace=0.2)
    p, median = simulation.characteristics(trace)
    typical = "–" if np.isnan(median) else plural(median, "step")
    subtitle = f"$p_X$ = {p:.2f}    med$_X$ = {typical}"
    figure.text(0.09, 1 - 0.22 / tall, name, size=style.LARGE, weight="bold")
    figure.text(0.09, 1 - 0.42 / tall, subtitle, size=style.MEDIUM, color=style.INK)
    if informed:
        _draw_signal(panels[0], trace)
    _draw_probability(panels[-2], trace)
    _draw_modes(panels[-1], trace)
    for axes in panels[:-1]:
        for start in np.flatnonzero(trace.is_first)[1:]:
            axes.axvline(start, color=style.INK, linewidth=0.8)
    panels[-1].set_xlim(0, len(trace.modes))
    _add_legend(figure, switches=True, loc="upper right", bbox_to_anchor=(0.99, 0.995))
    return figure


def switches(trace: Trace) -> tuple[Bool[np.ndarray, "T"], Bool[np.ndarray, "T"]]:
    """Returns which steps switch to explore, and which switch to exploit.

    An episode's first step does neither: it starts a new count.
    """
    before = np.append(trace.modes[0], trace.modes[:-1])
    inside = ~trace.is_first
    return inside & trace.modes & ~before, inside & ~trace.modes & before


def _draw_signal(axes: Axes, trace: Trace) -> None:
    """Draws what the trigger read; gaps are steps at which it was not asked."""
    steps, (to_explore, _) = np.arange(len(trace.modes)) + 0.5, switches(trace)
    axes.plot(steps, trace.signal, color=style.INK, linewidth=0.8)
    axes.plot(steps[to_explore], trace.signal[to_explore], **_TO_EXPLORE)
    axes.set_ylabel("trigger\nsignal")


def _draw_probability(axes: Axes, trace: Trace) -> None:
    """Draws the probability to leave the present mode, in the colour of that mode."""
    steps, asked = np.arange(len(trace.modes)) + 0.5, ~trace.is_first
    before = np.append(trace.modes[0], trace.modes[:-1])
    possible = trace.probability[asked & (trace.probability > 0)]
    counted = (possible == 1).all()  # a coin and homeostasis know more than 0 and 1
    for explores, colour in ((False, style.BLUE), (True, style.MAGENTA)):
        drawn = asked & (before == explores) & (counted | (trace.probability > 0))
        shown = np.where(drawn, trace.probability, np.nan)
        axes.plot(steps, shown, ".-", color=colour, linewidth=0.8, markersize=1.5)
    kinds = (_TO_EXPLORE, _TO_EXPLOIT)
    for fired, kind in zip(switches(trace), kinds, strict=True):
        axes.plot(steps[fired], trace.probability[fired], **kind)
    if counted:
        axes.set_ylim(-0.1, 1.1)
    else:
        axes.set_yscale("log")
        axes.set_ylim(possible.min() / 2, 2.0)
        axes.yaxis.minorticks_off()
    axes.set_ylabel("probability\nof a switch")


def _draw_modes(axes: Axes, trace: Trace) -> None:
    """Draws the strip, and below it a mark for each reward."""
    draw_strip(axes, trace)
    steps = np.flatnonzero(trace.reward > 0) + 0.5
    mark = {"markeredgecolor": style.INK, "markeredgewidth": 0.3, "markersize": 3.5}
    rows = np.full(len(steps), _REWARD_ROW)
    axes.plot(steps, rows, "d", color=style.GOLD, clip_on=False, **mark)
    axes.set_ylim(_REWARD_ROW - 0.25, 0.6)
    axes.set_yticks([0.0, _REWARD_ROW], ["mode", "reward"])
    axes.set_xlabel("step")
    style.hide_sides(axes, "left")
