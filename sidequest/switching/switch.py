"""`Switch`: when to explore, for an agent of your own, in NumPy, PyTorch or anything.

switch = Switch("XU-intra(10,informed,p*,X)", streams=8)
while True:
    modes = switch.step(reward=r, discount=d, value=q.max(-1), is_first=first)
    action = np.where(modes, explore_action, greedy_action)

`Switch` is a shell over two pure functions, `init` and `step` of `make_switch`, which join
controllers, bandits and statistics for a batch of environments. They run on NumPy arrays
and, with the same decisions, inside JAX's `jit`, `vmap` and `scan`.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sidequest.errors import missing_extra
from sidequest.switching import homeostasis, metacontroller, periods
from sidequest.switching.arrays import (
    ONE_STEP,
    ZERO,
    choose,
    columns,
    fill,
    may_hold,
    namespace,
    repeat,
    surely_below,
    tree_map,
    update_if_any,
)
from sidequest.switching.bandits import Bandit, proportional
from sidequest.switching.controllers import Controller, ControllerState, make_controller
from sidequest.switching.metacontroller import (
    DIMENSIONS,
    ArmProbabilities,
    Arms,
    Episodes,
    MetaController,
    MetaState,
    VariantArrays,
    fix_arms,
    make_metacontroller,
    name_arms,
    variant_arrays,
)
from sidequest.switching.triggers import COIN, COUNTER, INFORMED, SIGNALS, Signal, stateless
from sidequest.switching.variants import Variant, parse
from sidequest.types import AnyArray, Mode, Signals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy.typing import ArrayLike

DISCOUNT = 0.997  # the paper's
UNIFORMS = 1 + len(DIMENSIONS)
"""Uniform random numbers that a step of one environment takes: for its mode and its arm."""
_VERSION = 3  # of `Switch.state_dict`
_SHARED = 16  # a bandit's update waits for a 16th of the environments
_SPAWN = 0x51DE
_KEPT = 1_000  # steps that `Switch.plot` can show
_STATISTICS = ("p_X", "med_X", "rmed_X", "realised_rate", "return", "length")
_LARGEST = float(np.finfo(np.float32).max)
_GIVEN = ("value", "action_mismatch", "value_variance", "novelty")
_MAY_BE_NAN = ("controllers.signal", "meta.lengths", "meta.bandit.errors")
_TRIGGERS = {int(COUNTER): "counter", int(COIN): "coin"}
_AUTORESETS = {"nextstep": "is_last", "samestep": "is_first"}

_SignalFunction: TypeAlias = Callable[[Signals], Any] | Signal


class Finished(NamedTuple):
    """What statistics and bandits need of an episode."""

    choices: Int[AnyArray, "D B"]
    returns: Float[AnyArray, "B"]
    periods: periods.PeriodsState


class SwitchState(NamedTuple):
    """Arrays whose last axis is the environments', and arrays of all of them together."""

    controllers: ControllerState
    choices: Int[AnyArray, "D B"]
    returns: Float[AnyArray, "B"]
    periods: periods.PeriodsState
    begins: Bool[AnyArray, "B"]
    """Whether the next step is the first of an episode, marked or not."""
    meta: MetaState
    arms: ArmProbabilities
    finished: Finished
    """The last episode of each environment."""
    waiting: Bool[AnyArray, "B"]
    """Whether statistics and bandits have yet to be updated with it."""
    sums: Float[AnyArray, "S"]
    """Of `_STATISTICS`, over the finished episodes that had them."""
    counts: Int[AnyArray, "S"]


class SwitchFunctions(NamedTuple):
    """Pure functions, for NumPy and for JAX's `jit`, `vmap` and `scan`."""

    init: Callable[[int], SwitchState]
    """(streams) -> the state of so many environments before their first step."""
    step: Callable[..., tuple[Mode, SwitchState]]
    """(state, uniforms, signals, is_last=None) -> (modes, state).

    `uniforms` are random numbers [UNIFORMS, B] in [0, 1); each field of `signals` has the
    axis [B]. `is_last` marks environments whose episode is over, see `Switch.step`.
    """


def make_switch(
    variant: str | Variant,
    arms: Arms | None = None,
    *,
    signal: _SignalFunction | None = None,
    bandit: Callable[[int], Bandit] = proportional,
    rule: homeostasis.Rule = "saturated",
) -> SwitchFunctions:
    """Returns the functions that a `Switch` of these arguments is made of."""
    variant = parse(variant)
    fixed = name_arms(variant, arms)
    arrays = fix_arms(variant_arrays(variant), fixed)
    sources = {}
    if variant.informed:
        own = SIGNALS[str(variant.trigger)] if signal is None else _own_signal(signal)
        sources[str(variant.trigger)] = own
    controller = make_controller(sources, rule)
    adapted = [name for name in variant.bandits() if name not in fixed]
    meta = make_metacontroller(bandit, dimensions=adapted)
    # Otherwise every episode has the same arm.
    adapts = bool(adapted) or bool(arrays.share.any())
    return _join(controller, meta, arrays, adapts)


def _join(
    controller: Controller, meta: MetaController, arrays: VariantArrays, adapts: bool
) -> SwitchFunctions:
    """Returns the functions of a variant; what they compile serves other variants too."""

    def init(streams: int) -> SwitchState:
        fresh = meta.init(arrays)
        probabilities = meta.arm_probabilities(fresh)
        choices, arm = metacontroller.draw(
            np.zeros((len(DIMENSIONS), streams), np.float32), probabilities
        )
        returns, one = np.zeros(streams, np.float32), periods.init()
        rest = repeat(tuple(controller.init(arm)[1:]), streams)
        return SwitchState(
            controllers=ControllerState(arm, *rest),
            choices=choices,
            returns=returns,
            periods=repeat(one, streams),
            begins=np.ones(streams, bool),
            meta=fresh,
            arms=probabilities,
            finished=Finished(choices, returns, repeat(one, streams)),
            waiting=np.zeros(streams, bool),
            sums=np.zeros(len(_STATISTICS), np.float32),
            counts=np.zeros(len(_STATISTICS), np.int32),
        )

    def step(
        state: SwitchState,
        uniforms: Float[AnyArray, "4 B"],
        signals: Signals,
        is_last: Bool[AnyArray, "B"] | None = None,
    ) -> tuple[Mode, SwitchState]:
        first = signals.is_first | state.begins
        if is_last is not None:
            first = first & ~is_last
        # The reward that arrives with a first observation belongs to the episode before.
        returns, begins = state.returns + signals.reward, state.begins
        if may_hold(first):
            state = update_if_any(
                first,
                lambda state: start_episodes(uniforms[1:], first, returns, state),
                state,
            )
            xp = namespace(first, returns)
            returns, begins = xp.where(first, ZERO, returns), begins & ~first
        before = state.controllers
        modes, controllers = controller.step(
            uniforms[0], Signals(first, *signals[1:]), before
        )
        if is_last is None:
            counted = periods.step(modes, first, state.periods)
        else:
            begins, plays = is_last, ~is_last
            modes = namespace(modes).where(is_last, before.mode, modes)
            controllers = choose(plays, controllers, before)
            counted = periods.step(modes, first, state.periods)
            counted = choose(plays, counted, state.periods)
        return modes, SwitchState(
            controllers, state.choices, returns, counted, begins, *state[5:]
        )

    def start_episodes(
        uniforms: Float[AnyArray, "D B"],
        first: Bool[AnyArray, "B"],
        returns: Float[AnyArray, "B"],
        state: SwitchState,
    ) -> SwitchState:
        """Keeps the episodes that ended, and draws arms for those that start."""
        ended = first & (state.periods.steps > 0)
        state = update_if_any(ended & state.waiting, count_finished, state)
        episodes = Finished(state.choices, returns, state.periods)
        waiting = state.waiting | ended
        state = state._replace(
            finished=fill(ended, columns(ended, episodes)[1], state.finished),
            waiting=waiting,
        )
        if not adapts:
            return state
        # Counting takes as long as some steps, so with many environments several
        # episodes share it.
        due = waiting & (waiting.sum() * _SHARED >= len(first))
        state = update_if_any(due, count_finished, state)
        drawn = metacontroller.draw(columns(first, uniforms)[1], state.arms)
        choices, arm = fill(first, drawn, (state.choices, state.controllers.arm))
        return state._replace(
            controllers=state.controllers._replace(arm=arm), choices=choices
        )

    def count_finished(state: SwitchState) -> SwitchState:
        """Updates statistics and bandits with the episodes that wait."""
        waiting, finished = state.waiting, state.finished
        sums, counts = _count_episodes(state, finished, waiting)
        state = state._replace(sums=sums, counts=counts, waiting=waiting & False)
        if not adapts:
            return state
        lengths = finished.periods.steps
        episodes = Episodes(finished.choices.T, finished.returns, lengths)
        updated = meta.update(state.meta, episodes, waiting)
        return state._replace(meta=updated, arms=meta.arm_probabilities(updated))

    return SwitchFunctions(init, step)


def _own_signal(signal: _SignalFunction) -> Signal:
    """Returns the user's signal; it may compute with any array library."""
    source = signal if isinstance(signal, Signal) else stateless(signal)

    def step(signals: Signals, state: Any) -> tuple[Any, Any, Any]:
        xp, shape = namespace(signals.is_first), signals.is_first.shape
        x, ready, state = source.step(signals, state)
        x = xp.broadcast_to(xp.asarray(x, np.float32), shape)
        return x, xp.asarray(ready, bool), state

    return Signal(source.init, step)


def _count_episodes(
    state: SwitchState, episodes: Finished, counted: Bool[AnyArray, "B"]
) -> tuple[Float[AnyArray, "S"], Int[AnyArray, "S"]]:
    """Adds the `counted` episodes to the sums; NaN is not counted."""
    xp = namespace(counted)
    counted, (_, returns, modes) = columns(counted, episodes)
    stats, rates = periods.summary(modes), periods.entry_rate(modes)
    values = xp.stack([*stats[:3], rates, returns, modes.steps.astype(np.float32)])
    known = counted & ~xp.isnan(values)
    sums = state.sums + xp.where(known, values, ZERO).sum(1)
    return sums, (state.counts + known.sum(1)).astype(np.int32)


class Status(NamedTuple):
    """What every environment is doing, and why: arrays [streams]."""

    explores: Bool[np.ndarray, "B"]
    elapsed: Int[np.ndarray, "B"]
    """Steps of the present period so far, this one included."""
    trigger: np.ndarray
    """What began the present period: `start` (of the episode), `counter`, `coin`, or the
    name of the informed trigger."""
    signal: Float[np.ndarray, "B"]
    """The trigger's signal at the last decision; NaN where there was none."""
    probability: Float[np.ndarray, "B"]
    """The probability of a switch that the last step used."""
    rate: Float[np.ndarray, "B"]
    """The probability or target rate that ends the present period; NaN for a counter."""
    arms: dict[str, Float[np.ndarray, "B"]]
    """What each bandit has chosen for the present episode, by its name."""


class Switch:
    """Decides, step by step and for many environments at once, whether to explore.

    Args:
      variant: a name of the paper's grammar, or a `Variant`.
      streams: the number of environments.
      seed: of all random choices.
      arms: fixes what a bandit would choose. A mapping such as `{"exploit": 0.01}`, one
        number if the variant has one bandit, or one a bandit in the order of the name.
      signal: your own trigger signal in place of the paper's: a function of `Signals`
        (arrays [streams]), or a `Signal` with a state. High where exploring is due.
      bandit: makes a bandit from a number of arms; see `sidequest.switching.bandits`.
      rule: of homeostasis, "saturated" or "printed".
    """

    def __init__(
        self,
        variant: str | Variant,
        streams: int = 1,
        seed: int = 0,
        arms: Arms | None = None,
        *,
        signal: _SignalFunction | None = None,
        bandit: Callable[[int], Bandit] = proportional,
        rule: homeostasis.Rule = "saturated",
    ):
        self.variant = parse(variant)
        self.streams = _whole("streams", streams, least=1)
        self.seed = _whole("seed", seed, least=0)
        if signal is not None and not self.variant.informed:
            raise ValueError(
                f"{self.variant} reads no signal; signal= is for informed ones"
            )
        if not (signal is None or callable(signal) or isinstance(signal, Signal)):
            raise ValueError(f"signal is {signal!r}; it is a function, or a `Signal`")
        self._arguments = {"arms": arms, "signal": signal, "bandit": bandit, "rule": rule}
        needed = () if signal is not None else self.variant.signals
        self._needed = [_GIVEN.index(name) for name in needed if name in _GIVEN]
        self._fixed = name_arms(self.variant, arms)
        self._functions = make_switch(self.variant, **self._arguments)
        self._state = self._functions.init(self.streams)
        # Apart from the agent's own generator, which may well have the same seed.
        seeds = np.random.SeedSequence(self.seed, spawn_key=(_SPAWN,))
        self._rng = np.random.default_rng(seeds)
        self._false = np.zeros(self.streams, bool)
        self._steps = 0
        self._shapes = ((), (self.streams,))
        # Of the last steps, for `plot`.
        self._explored, self._started = np.zeros((2, _KEPT, self.streams), bool)

    def step(
        self,
        *,
        reward: ArrayLike = 0.0,
        discount: ArrayLike = DISCOUNT,
        value: ArrayLike | None = None,
        is_first: ArrayLike = False,
        is_last: ArrayLike = False,
        action_mismatch: ArrayLike | None = None,
        value_variance: ArrayLike | None = None,
        novelty: ArrayLike | None = None,
    ) -> Bool[np.ndarray, "B"]:
        """Advances every environment by one step and returns which of them explore.

        Each argument is one number an environment, or one for all. `step_arguments` makes
        the first four of what an environment of Gymnasium returns.

        Args:
          reward: what arrived with this observation. With the first observation of an
            episode that is the last reward of the episode before it (or 0).
          discount: your discount; 0 if the episode terminated.
          value: V(s) of this observation, the maximum Q-value.
          is_first: whether this observation is the first of an episode.
          is_last: whether it is the last of an episode: its action is ignored, and the next
            call brings a first one. Only the reward counts; the environment waits.
          action_mismatch: needed by `informed:mismatch`; see `triggers.action_mismatch`.
          value_variance: needed by `informed:variance`; see `triggers.value_variance`.
          novelty: for a signal of your own.
        """
        given = (value, action_mismatch, value_variance, novelty)
        for place in self._needed:
            if given[place] is None:
                name = _GIVEN[place]
                raise ValueError(f"{self.variant} needs {name}: pass {name}=...")
        state, size = self._state, self.streams
        with np.errstate(all="ignore"):
            row = self._row("discount", discount)
            low, high = (row.min(), row.max()) if row.ndim else (float(row),) * 2
            if not (0 <= low and high <= 1):
                raise ValueError(f"discount is {discount}; it is 0 to 1")
            first, last = self._marks("is_first", is_first), None
            if is_last is not False:
                last = self._marks("is_last", is_last).copy()  # the state keeps it
                last = last if np.count_nonzero(last) else None
            signals = Signals(
                first, self._row("reward", reward), row, *map(self._row, _GIVEN, given)
            )
            # Without an episode's start no arm is drawn.
            starts = np.count_nonzero(first | state.begins) > 0
            uniforms = self._rng.random((UNIFORMS if starts else 1, size), np.float32)
            modes, state = self._functions.step(state, uniforms, signals, last)
        place = self._steps % _KEPT
        self._explored[place] = modes
        self._started[place] = starts and state.periods.steps == ONE_STEP
        self._state, self._steps = state, self._steps + 1
        return modes.copy()

    def _row(self, name: str, data: ArrayLike | None) -> Float[np.ndarray, "*B"]:
        """Returns finite numbers: one an environment, or one for all."""
        if data is None:
            return ZERO
        if type(data) is float and abs(data) < _LARGEST:
            return np.array(data, np.float32)
        row = self._array(name, data).astype(np.float32, copy=False)
        if not surely_below(math.inf, row) and not np.isfinite(row).all():
            raise ValueError(f"{name} holds a number that is not finite: {data}")
        return row

    def _marks(self, name: str, data: ArrayLike) -> Bool[np.ndarray, "B"]:
        if data is False:
            return self._false
        marks = self._array(name, data).astype(bool, copy=False)
        return marks if marks.ndim else np.full(self.streams, marks)

    def _array(self, name: str, data: ArrayLike) -> np.ndarray:
        array = np.asarray(data)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds {array.dtype}; it is numbers or booleans")
        if array.shape not in self._shapes:
            raise ValueError(
                f"{name} has the shape {array.shape}; expected one number, "
                f"or one for each of the {self.streams} streams"
            )
        return array

    @property
    def modes(self) -> Bool[np.ndarray, "B"]:
        """Which environments explore: what the last step returned."""
        return self._state.controllers.mode.copy()

    def status(self) -> Status:
        """Returns what every environment is doing, and why."""
        state = self._state.controllers
        exploit, explore = state.arm.exploit, state.arm.explore
        # A period begins where the period of the other mode ended, or with the episode.
        kind = np.where(state.mode, exploit.kind, explore.kind)
        kind = np.where(state.elapsed >= self._state.periods.steps, -1, kind)
        names = {**_TRIGGERS, int(INFORMED): str(self.variant.trigger), -1: "start"}
        ends = np.where(state.mode, explore.kind, exploit.kind)
        amount = np.where(state.mode, explore.amount, exploit.amount)
        entries = self._state.meta.variant.entries
        return Status(
            explores=state.mode.copy(),
            elapsed=state.elapsed.copy(),
            trigger=np.array([names[each] for each in kind.tolist()]),
            signal=state.signal.copy(),
            probability=state.probability.copy(),
            rate=np.where((ends == COIN) | (ends == INFORMED), amount, np.nan),
            arms={
                name: entries[row][self._state.choices[row]]
                for row, name in enumerate(DIMENSIONS)
                if name in self.variant.bandits()
            },
        )

    def summary(self) -> dict[str, Any]:
        """Returns means over all episodes so far, open ones included, and the bandits."""
        state = self._state
        with np.errstate(invalid="ignore"):
            sums, counts = _count_episodes(state, state.finished, state.waiting)
            present = Finished(state.choices, state.returns, state.periods)
            sums, counts = _count_episodes(
                state._replace(sums=sums, counts=counts), present, state.periods.steps > 0
            )
            means = sums / counts
        return {
            **dict(zip(_STATISTICS, map(float, means), strict=True)),
            "episodes": int(counts[_STATISTICS.index("length")]),
            "bandits": self.probabilities(),
        }

    def probabilities(self) -> dict[str, dict[float, float]]:
        """Returns the probability of each bandit's arms, by bandit and arm."""
        rows = self._state.arms.probabilities.tolist()
        return {
            name: dict(zip(arms, rows[DIMENSIONS.index(name)], strict=False))
            for name, arms in self.variant.bandits().items()
            if name not in self._fixed
        }

    def plot(self, most: int = 8) -> Any:
        """Draws the last 1,000 steps of the first `most` environments, one strip each.

        Explore steps are dark, exploit steps light; a line marks the start of an episode.
        Returns a figure of matplotlib.
        """
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise missing_extra("Switch.plot", error) from None
        shown = min(most, self.streams)
        order = np.arange(max(0, self._steps - _KEPT), self._steps)
        modes = self._explored[order % _KEPT, :shown]
        first = self._started[order % _KEPT, :shown]
        figure = Figure(figsize=(9.0, 0.8 + 0.3 * shown), layout="constrained")
        axes = figure.add_subplot()
        edges = np.append(order, self._steps) - 0.5
        rows = np.arange(shown + 1) - 0.5
        axes.pcolormesh(edges, rows, modes.T, cmap="Purples", vmin=-0.3, vmax=1.3)
        steps, environments = np.nonzero(first)
        axes.vlines(order[steps] - 0.5, environments - 0.5, environments + 0.5, "black")
        axes.set(yticks=range(shown), ylabel="environment", xlabel="step")
        axes.set_title(f"{self.variant}: explore steps are dark")
        axes.invert_yaxis()
        return figure

    @property
    def nbytes(self) -> int:
        """The memory of the state and of the kept steps, in bytes."""
        arrays = [np.asarray(leaf) for _, leaf in _leaves(self._state)]
        return sum(array.nbytes for array in (*arrays, self._explored, self._started))

    def __repr__(self) -> str:
        counted = f"{self._steps:,} steps, {self.nbytes / self.streams / 1e3:.1f} kB each"
        return (
            f"<Switch {self.variant}, streams={self.streams}, seed={self.seed}, {counted}>"
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns everything needed to resume later: names, texts and NumPy arrays."""
        arrays = {name: np.array(leaf) for name, leaf in _leaves(self._state)}
        random = json.dumps(self._rng.bit_generator.state)
        return {**self._identity(), "steps": self._steps, "random": random, **arrays}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resumes from the `state_dict()` of a switch with the same arguments.

        Raises:
          ValueError: if it is of another switch or version, or holds what cannot be.
        """
        for name, own in self._identity().items():
            found = str(saved.get(name))
            if found != str(own):
                raise ValueError(
                    f"the saved state is of the {name} {found}, this is of {own}"
                )
        restored = []
        for name, leaf in _leaves(self._state):
            leaf, data = np.asarray(leaf), np.array(saved.get(name))
            if data.shape != leaf.shape or data.dtype != leaf.dtype:
                found = f"{data.dtype}{data.shape}" if name in saved else "missing"
                raise ValueError(
                    f"saved state: {name} is {found}, expected {leaf.dtype}{leaf.shape}"
                )
            if name not in _MAY_BE_NAN and not np.isfinite(data).all():
                raise ValueError(f"saved state: {name} holds a number that is not finite")
            if name.startswith("meta.variant") and not np.array_equal(data, leaf):
                raise ValueError(
                    f"the saved state has other arms: {name} is {data.tolist()}"
                )
            restored.append(data)
        rng = np.random.default_rng()
        try:
            rng.bit_generator.state = json.loads(str(saved.get("random")))
            steps = _whole("steps", int(saved["steps"]), least=0)
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(
                f"saved state: random or steps cannot be used: {error}"
            ) from None
        arrays = iter(restored)
        self._state = tree_map(lambda _: next(arrays), self._state)
        self._rng, self._steps = rng, steps
        self._explored[:] = self._started[:] = False

    def _identity(self) -> dict[str, Any]:
        """Returns what a state belongs to."""
        signal = self._arguments["signal"]
        read = signal.step if isinstance(signal, Signal) else signal
        return {
            "version": _VERSION,
            "variant": str(self.variant),
            "streams": self.streams,
            "rule": self._arguments["rule"],
            "signal": "" if signal is None else getattr(read, "__qualname__", "own"),
        }

    def __getstate__(self) -> dict[str, Any]:
        made = {"variant": self.variant, "streams": self.streams, "seed": self.seed}
        return {
            "made": made | self._arguments,
            "state": self.state_dict(),
            "shown": (self._explored, self._started),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(**saved["made"])
        self.load_state_dict(saved["state"])
        self._explored, self._started = map(np.array, saved["shown"])


def step_arguments(
    reward: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    *,
    autoreset: Any = "next-step",
    discount: float = DISCOUNT,
) -> dict[str, np.ndarray]:
    """Returns the arguments of `Switch.step` for what a vector environment returned.

        switch.step(value=q.max(1), **step_arguments(reward, terminated, truncated))

    Args:
      autoreset: how the environment starts a new episode: "next-step", the default of
        Gymnasium, with the next call of its `step`; "same-step", at once, so that the
        observation is already the first of the new episode. Or Gymnasium's `AutoresetMode`.
      discount: your discount.
    """
    mode = str(getattr(autoreset, "value", autoreset))
    name = _AUTORESETS.get(mode.lower().replace("-", "").replace("_", ""))
    if name is None:
        raise ValueError(
            f"autoreset is {mode!r}; it is 'next-step' or 'same-step'. If you reset "
            "environments yourself, pass is_first to Switch.step"
        )
    terminated = np.asarray(terminated, bool)
    return {
        "reward": np.asarray(reward),
        "discount": np.where(terminated, 0.0, discount),
        name: terminated | np.asarray(truncated, bool),
    }


def _whole(name: str, number: Any, least: int) -> int:
    try:
        whole = operator.index(number)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise ValueError(f"{name} is {number!r}; it is a whole number of {least} or more")
    return whole


def _leaves(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the arrays of nested (named) tuples, with names such as `periods.steps`."""
    if not isinstance(tree, tuple):
        yield name, tree
        return
    fields = getattr(tree, "_fields", range(len(tree)))
    for field, part in zip(fields, tree, strict=True):
        yield from _leaves(part, f"{name}.{field}" if name else str(field))
