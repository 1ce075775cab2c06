"""One variant's example in detail: what the trigger saw, and what came of it."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures import style as look
from sidequest.figures.strips import characteristics, draw_strip
from sidequest.types import Trace

REWARD_ROW = -0.75  # where the marks of rewards lie, below the strip at 0


def draw_example(trace: Trace, name: str) -> Figure:
    """Panels over time: the trigger's signal if it has any, its probability, the modes."""
    informed = not np.isnan(trace.signal).all()
    heights = [1.4, 1.4, 1.2] if informed else [1.4, 1.2]
    tall = 1.0 + sum(heights)
    figure = look.new_figure(9.0, tall)
    panels = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, height_ratios=heights
    )[:, 0]
    figure.subplots_adjust(
        left=0.09, right=0.98, top=1 - 0.55 / tall, bottom=0.42 / tall, hspace=0.2
    )
    p, median = characteristics(trace)
    figure.text(0.09, 1 - 0.22 / tall, name, size=look.LARGE, weight="bold")
    typical = "–" if np.isnan(median) else f"{median:g} steps"
    subtitle = f"$p_X$ = {p:.2f}    med$_X$ = {typical}"
    figure.text(0.09, 1 - 0.42 / tall, subtitle, size=look.MEDIUM, color=look.INK)
    if informed:
        _draw_signal(panels[0], trace)
    _draw_probability(panels[-2], trace)
    _draw_modes(panels[-1], trace)
    for axes in panels[:-1]:
        look.tidy(axes)
        for start in np.flatnonzero(trace.is_first)[1:]:
            axes.axvline(start, color=look.INK, linewidth=0.8)
    panels[-1].set_xlim(0, len(trace.modes))
    look.mode_legend(figure, switches=True, loc="upper right", bbox_to_anchor=(0.99, 0.995))
    return figure


def switches(trace: Trace) -> tuple[Bool[np.ndarray, "T"], Bool[np.ndarray, "T"]]:
    """Steps that switch to explore, and steps that switch to exploit.

    An episode's first step does neither: it starts anew.
    """
    before = np.append(trace.modes[0], trace.modes[:-1])
    inside = ~trace.is_first
    return inside & trace.modes & ~before, inside & ~trace.modes & before


def _middles(trace: Trace) -> Float[np.ndarray, "T"]:
    return np.arange(len(trace.modes)) + 0.5


def _draw_signal(axes: Axes, trace: Trace) -> None:
    """What the trigger read; gaps are steps at which it was not asked."""
    steps, (to_explore, _) = _middles(trace), switches(trace)
    axes.plot(steps, trace.signal, color=look.INK, linewidth=0.8)
    axes.plot(steps[to_explore], trace.signal[to_explore], **look.TO_EXPLORE)
    axes.set_ylabel("trigger\nsignal", size=look.SMALL)


def _draw_probability(axes: Axes, trace: Trace) -> None:
    """Of leaving the mode that the agent was in, coloured by that mode."""
    steps, asked = _middles(trace), ~trace.is_first
    before = np.append(trace.modes[0], trace.modes[:-1])
    possible = trace.probability[asked & (trace.probability > 0)]
    counted = (possible == 1).all()  # a coin and homeostasis know more than 0 and 1
    for explores, colour in ((False, look.BLUE), (True, look.MAGENTA)):
        drawn = asked & (before == explores) & (counted | (trace.probability > 0))
        shown = np.where(drawn, trace.probability, np.nan)
        axes.plot(steps, shown, ".-", color=colour, linewidth=0.8, markersize=1.5)
    kinds = (look.TO_EXPLORE, look.TO_EXPLOIT)
    for fired, kind in zip(switches(trace), kinds, strict=True):
        axes.plot(steps[fired], trace.probability[fired], **kind)
    if counted:
        axes.set_ylim(-0.1, 1.1)
    else:
        axes.set_yscale("log")
        axes.set_ylim(possible.min() / 2, 2.0)
        axes.yaxis.minorticks_off()
    axes.set_ylabel("probability\nof a switch", size=look.SMALL)


def _draw_modes(axes: Axes, trace: Trace) -> None:
    """The strip, and below it a mark for each reward."""
    draw_strip(axes, trace)
    steps = _middles(trace)[trace.reward > 0]
    axes.plot(
        steps,
        np.full(len(steps), REWARD_ROW),
        "d",
        color=look.GOLD,
        markeredgecolor=look.INK,
        markeredgewidth=0.3,
        markersize=3.5,
        clip_on=False,
    )
    axes.set_ylim(REWARD_ROW - 0.25, 0.6)
    axes.set_yticks([0.0, REWARD_ROW], ["mode", "reward"])
    axes.set_xlabel("step", size=look.SMALL)
    look.tidy(axes, sides=("bottom",))
