"""What a switch is doing and has done, from its state: the readings of `Switch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sidequest.errors import missing_extra
from sidequest.switching.metacontroller import DIMENSIONS
from sidequest.switching.switch import STATISTICS, Finished, SwitchState, count_episodes
from sidequest.switching.triggers import COIN, COUNTER, INFORMED
from sidequest.switching.variants import Variant

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_TRIGGERS = {int(COUNTER): "counter", int(COIN): "coin"}


class Status(NamedTuple):
    """Holds what every environment is doing, and why: arrays with an entry for each."""

    explores: Bool[np.ndarray, "B"]
    elapsed: Int[np.ndarray, "B"]
    """Steps of the present period so far, this one included."""
    trigger: np.ndarray
    """What began the present period: `start` (of the episode), `counter`, `coin`, or the
    name of the informed trigger."""
    signal: Float[np.ndarray, "B"]
    """The trigger's signal at the last step; NaN if it had none, as in explore periods of
    fixed length."""
    probability: Float[np.ndarray, "B"]
    """The probability of a switch that the last step used."""
    rate: Float[np.ndarray, "B"]
    """The probability or target rate that ends the present period; NaN for a counter."""
    arms: dict[str, Float[np.ndarray, "B"]]
    """What each bandit has chosen for the present episode, by its name."""


def status(variant: Variant, state: SwitchState) -> Status:
    """Returns what every environment is doing, and why."""
    own = state.controllers
    exploit, explore = own.arm.exploit, own.arm.explore
    # A period begins where the period of the other mode ended, or with the episode.
    kind = np.where(own.mode, exploit.kind, explore.kind)
    kind = np.where(own.elapsed >= state.periods.steps, -1, kind)
    names = {**_TRIGGERS, int(INFORMED): str(variant.trigger), -1: "start"}
    ends = np.where(own.mode, explore.kind, exploit.kind)
    amount = np.where(own.mode, explore.amount, exploit.amount)
    entries = state.meta.variant.entries
    return Status(
        explores=own.mode.copy(),
        elapsed=own.elapsed.copy(),
        trigger=np.array([names[each] for each in kind.tolist()]),
        signal=own.signal.copy(),
        probability=own.probability.copy(),
        rate=np.where((ends == COIN) | (ends == INFORMED), amount, np.nan),
        arms={
            name: entries[row][state.choices[row]]
            for row, name in enumerate(DIMENSIONS)
            if name in variant.bandits()
        },
    )


def summarise(state: SwitchState) -> dict[str, Any]:
    """Returns means over all episodes so far, open ones included."""
    with np.errstate(invalid="ignore"):
        totals = count_episodes(state.sums, state.counts, state.finished, state.waiting)
        present = Finished(state.choices, state.returns, state.periods)
        sums, counts = count_episodes(*totals, present, state.periods.steps > 0)
        means = sums / counts
    return {
        **dict(zip(STATISTICS, map(float, means), strict=True)),
        "episodes": int(counts[STATISTICS.index("length")]),
    }


def plot_modes(
    modes: Bool[np.ndarray, "T B"],
    first: Bool[np.ndarray, "T B"],
    begin: int,
    title: str,
) -> Any:
    """Returns a figure of matplotlib: a strip for each environment, from `begin` on."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing_extra("Switch.plot", error) from None
    steps, shown = modes.shape
    figure = Figure(figsize=(9.0, max(1.7, 0.8 + 0.3 * shown)), layout="constrained")
    axes = figure.add_subplot()
    edges, rows = begin + np.arange(steps + 1) - 0.5, np.arange(shown + 1) - 0.5
    axes.pcolormesh(edges, rows, modes.T, cmap="Purples", vmin=-0.3, vmax=1.3)
    starts, environments = np.nonzero(first)
    # As thin as short episodes need it.
    width = min(1.5, 150 * shown / max(1, len(starts)))
    axes.vlines(edges[starts], environments - 0.5, environments + 0.5, "black", lw=width)
    axes.set(yticks=range(shown), ylabel="environment", xlabel="step", title=title)
    axes.invert_yaxis()
    return figure
