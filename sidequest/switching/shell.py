"""`Switch`: when to explore, for an agent of your own, in NumPy, PyTorch or anything.

switch = Switch("XU-intra(10,informed,p*,X)", streams=8)
while True:
    modes = switch.step(reward=r, discount=d, value=q.max(-1), is_first=first)
    action = np.where(modes, explore_action, greedy_action)

It is a shell over the pure functions of `make_switch` (switch.py): it keeps their state and
a random generator, and checks what it is given.
"""

from __future__ import annotations

import contextvars
import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sidequest.switching import homeostasis, reports
from sidequest.switching.arrays import (
    INFINITY,
    ONE_STEP,
    ZERO,
    may_hold,
    surely_all,
    tree_map,
)
from sidequest.switching.bandits import Bandit, WindowState, proportional
from sidequest.switching.metacontroller import DIMENSIONS, Arms, name_arms
from sidequest.switching.switch import (
    DISCOUNT,
    UNIFORMS,
    SignalFunction,
    SwitchState,
    make_switch,
)
from sidequest.switching.triggers import Signal
from sidequest.switching.variants import Variant, parse
from sidequest.types import Signals

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import ArrayLike, NDArray

_VERSION = 5  # of `Switch.state_dict`
_SPAWN = 0x51DE
_BLOCK = 16  # steps whose random numbers are drawn at once
_KEPT = 1_000  # steps that `Switch.plot` can show
_BOOL, _FLOAT = np.dtype(bool), np.dtype(np.float32)
_GIVEN = ("value", "action_mismatch", "value_variance", "novelty")
_AUTORESETS = {"nextstep": "is_last", "samestep": "is_first"}
# Arrays of a saved state, by the beginnings of their names.
_CONSTANT = (
    *("meta.variant", "arms.variant", "meta.bandit.in_use", "controllers.arm.signal"),
    *("controllers.arm.exploit.kind", "controllers.arm.explore.kind"),
)
_MAY_BE_INFINITE = (
    *("controllers.signal", "controllers.memories", "returns", "finished.returns"),
    *("meta.lengths", "meta.bandit.errors"),
)


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
        signal: SignalFunction | None = None,
        bandit: Callable[[int], Bandit] = proportional,
        rule: homeostasis.Rule = "saturated",
    ):
        self.variant = parse(variant)
        self.streams = _whole("streams", streams, least=1)
        self.seed = _whole("seed", seed, least=0)
        self._arguments = {"arms": arms, "signal": signal, "bandit": bandit, "rule": rule}
        needed = () if signal is not None else self.variant.signals
        self._needed = [_GIVEN.index(name) for name in needed if name in _GIVEN]
        self._fixed = name_arms(self.variant, arms)
        self._functions = make_switch(self.variant, **self._arguments)
        self._state = self._functions.init(self.streams)
        # Apart from the agent's own generator, which may well have the same seed.
        seeds = np.random.SeedSequence(self.seed, spawn_key=(_SPAWN,))
        self._rng = np.random.default_rng(seeds)
        self._draw_block()
        self._steps = 0
        self._begins = True  # whether any of `state.begins` holds
        self._discount: tuple[Any, Any] = (None, None)  # the last one, and its array
        self._shape = (self.streams,)
        # NumPy does not warn in it; entering `np.errstate` takes longer.
        self._quiet = contextvars.copy_context()
        self._quiet.run(np.seterr, all="ignore")
        # Of the last steps, for `plot`; of none before `_shown_from`.
        self._explored, self._started = np.zeros((2, _KEPT, self.streams), bool)
        self._shown_from = 0

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
    ) -> NDArray[np.bool_]:
        """Advances every environment by one step and returns which of them explore.

        Each argument is one number an environment, or one for all. `step_arguments` makes
        reward, discount, and is_first or is_last of what Gymnasium's vector environments
        return.

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
        if not (type(discount) is float and discount is self._discount[0]):
            self._discount = (discount, self._discounts(discount))
        first, last = self._array("is_first", is_first, _BOOL), None
        if is_last is not False:
            last = self._array("is_last", is_last, _BOOL)
            last = last.copy() if may_hold(last) else None  # the state keeps it
        signals = Signals(
            first,
            self._row("reward", reward),
            self._discount[1],
            *map(self._row, _GIVEN, given),
        )
        uniforms = self._uniforms[self._steps % _BLOCK]
        advance = self._functions.step
        modes, state = self._quiet.run(advance, self._state, uniforms, signals, last)
        place, starts = self._steps % _KEPT, self._begins or may_hold(first)
        self._explored[place] = modes
        self._started[place] = starts and state.periods.steps == ONE_STEP
        if last is not None:  # an episode of one step that waits does not start again
            self._started[place] &= ~last
        self._state, self._steps, self._begins = state, self._steps + 1, last is not None
        if self._steps % _BLOCK == 0:
            self._draw_block()
        return modes.copy()

    def _draw_block(self) -> None:
        """Draws the random numbers of the next steps, and keeps what draws them again."""
        self._random = self._rng.bit_generator.state
        self._uniforms = self._rng.random((_BLOCK, UNIFORMS, self.streams), np.float32)

    def _discounts(self, data: ArrayLike) -> Float[np.ndarray, "*B"]:
        row = self._row("discount", data)
        if not (0 <= row.min() and row.max() <= 1):
            raise ValueError(f"discount is {data}; it is 0 to 1")
        return row if np.ndim(data) else np.array(row[0])

    def _row(self, name: str, data: ArrayLike | None) -> Float[np.ndarray, "*B"]:
        """Returns finite numbers, one an environment; 0 for a signal that was not given."""
        if data is None and name in _GIVEN:
            return ZERO
        row = self._array(name, data, _FLOAT)
        if not surely_all(abs(row) < INFINITY):
            raise ValueError(f"{name} holds a number that is not finite: {data}")
        return row

    def _array(self, name: str, data: Any, dtype: np.dtype) -> np.ndarray:
        """Returns one number an environment, from as many or one for all."""
        if type(data) is np.ndarray and data.dtype is dtype and data.shape == self._shape:
            return data
        try:
            array = np.asarray(data)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} is no array of numbers: {error}") from None
        if not np.can_cast(array.dtype, _FLOAT, "same_kind"):  # bfloat16 can be
            raise ValueError(f"{name} holds {array.dtype}; it is numbers or booleans")
        if array.shape not in ((), self._shape):
            raise ValueError(
                f"{name} has the shape {array.shape}; expected one number, "
                f"or one for each of the {self.streams} streams"
            )
        return self._quiet.run(np.full, self._shape, array, dtype)

    @property
    def modes(self) -> NDArray[np.bool_]:
        """Returns which environments explore: what the last step returned."""
        return self._state.controllers.mode.copy()

    def status(self) -> reports.Status:
        """Returns what every environment is doing, and why."""
        return reports.status(self.variant, self._state)

    def summary(self) -> dict[str, Any]:
        """Returns means over all episodes so far, open ones included, and the bandits."""
        return {**reports.summarise(self._state), "bandits": self.probabilities()}

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
        Steps before `load_state_dict` are not shown. Returns a figure of matplotlib.
        """
        most = _whole("most", most, least=1)
        begin = max(self._shown_from, self._steps - _KEPT)
        rows = np.arange(begin, self._steps) % _KEPT
        modes, first = self._explored[rows, :most], self._started[rows, :most]
        title = f"{self.variant}: explore steps are dark"
        return reports.plot_modes(modes, first, begin, title)

    @property
    def nbytes(self) -> int:
        """The memory of the state, the kept steps and the random numbers, in bytes."""
        arrays = [np.asarray(leaf) for _, leaf in _leaves(self._state)]
        kept = (self._explored, self._started, self._uniforms)
        return sum(array.nbytes for array in (*arrays, *kept))

    def __repr__(self) -> str:
        steps = f"{self._steps:,} step{'s' * (self._steps != 1)}"
        counted = f"{steps}, {self.nbytes / self.streams / 1e3:.1f} kB each"
        return (
            f"<Switch {self.variant}, streams={self.streams}, seed={self.seed}, {counted}>"
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns everything needed to resume later: names, texts and NumPy arrays."""
        arrays = {name: np.array(leaf) for name, leaf in _leaves(self._state)}
        random = json.dumps(self._random)
        return {**self._identity(), "steps": self._steps, "random": random, **arrays}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resumes from the `state_dict()` of a switch with the same arguments.

        Functions are compared by their names, so two lambdas pass for the same.

        Raises:
          ValueError: if it is of another switch or version, or holds what cannot be.
        """
        if not isinstance(saved, Mapping):
            said = "what state_dict() returned, or np.load of the file that holds it"
            raise ValueError(f"the state is {saved!r:.60}; it is {said}")
        for name, own in self._identity().items():
            found = str(saved.get(name))
            if found != str(own):
                raise ValueError(
                    f"the state was saved with {name}={found or None}; "
                    f"this switch has {name}={own or None}"
                )
        state = _restore(self._state, saved)
        rng = np.random.default_rng()
        try:
            rng.bit_generator.state = json.loads(str(saved.get("random")))
            steps = _whole("steps", int(saved["steps"]), least=0)
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise ValueError(
                f"saved state: random or steps cannot be used: {error}"
            ) from None
        self._state, self._rng, self._steps = state, rng, steps
        self._draw_block()
        self._begins = bool(state.begins.any())
        self._shown_from = steps

    def _identity(self) -> dict[str, Any]:
        """Returns what a state belongs to."""
        signal, bandit = self._arguments["signal"], self._arguments["bandit"]
        read = signal.step if isinstance(signal, Signal) else signal
        return {
            "version": _VERSION,
            "variant": str(self.variant),
            "streams": self.streams,
            "rule": self._arguments["rule"],
            "signal": "" if signal is None else getattr(read, "__qualname__", "own"),
            "bandit": getattr(bandit, "__qualname__", "own"),
        }

    def __getstate__(self) -> dict[str, Any]:
        made = {"variant": self.variant, "streams": self.streams, "seed": self.seed}
        return {
            "made": made | self._arguments,
            "state": self.state_dict(),
            "shown": (self._explored, self._started, self._shown_from),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(**saved["made"])
        self.load_state_dict(saved["state"])
        explored, started, self._shown_from = saved["shown"]
        self._explored, self._started = np.array(explored), np.array(started)


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
    given = {"terminated": terminated, "truncated": truncated}
    for argument, data in given.items():
        if np.asarray(data).dtype.kind not in "biuf":
            raise ValueError(
                f"{argument} is {type(data).__name__}, not booleans. Gymnasium's step "
                "returns observation, reward, terminated, truncated, info; the former "
                "Gym's, with one `done` for both, does not say what step needs"
            )
    ended, cut = (np.asarray(data, bool) for data in given.values())
    rewards = np.asarray(reward)
    if not ended.shape == cut.shape == rewards.shape:
        raise ValueError(
            f"reward, terminated and truncated have the shapes {rewards.shape}, "
            f"{ended.shape} and {cut.shape}; they are those of one step"
        )
    return {
        "reward": rewards,
        "discount": np.where(ended, 0.0, discount),
        name: ended | cut,
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


def _restore(state: SwitchState, saved: Mapping[str, Any]) -> SwitchState:
    """Returns the saved arrays in the structure of a state, if they are possible."""
    in_use = state.meta.variant.in_use[:, None]
    rates = in_use[DIMENSIONS.index("exploit")]
    below = {"choices": in_use, "finished.choices": in_use}
    below |= {"controllers.arm.place": rates, "controllers.homeostat.place": rates}
    if isinstance(state.meta.bandit, WindowState):
        below["meta.bandit.arms"] = state.meta.bandit.in_use[:, None]
    arrays = []
    for name, leaf in _leaves(state):
        leaf, data = np.asarray(leaf), np.array(saved.get(name))
        # A signal of one's own may start from 0 and remember fractions.
        own = name.startswith("controllers.memories")
        same = data.dtype == leaf.dtype or (own and data.dtype.kind in "biuf")
        if data.shape != leaf.shape or not same:
            found = f"{data.dtype}{data.shape}" if name in saved else "missing"
            raise ValueError(
                f"saved state: {name} is {found}, expected {leaf.dtype}{leaf.shape}"
            )
        if not name.startswith(_MAY_BE_INFINITE) and not np.isfinite(data).all():
            raise ValueError(f"saved state: {name} holds a number that is not finite")
        if name.startswith(_CONSTANT) and not np.array_equal(data, leaf):
            raise ValueError(f"the saved state has other arms: {name} is {data.tolist()}")
        # Arms, places and counters; a signal of one's own may remember any number.
        if data.dtype.kind == "i" and not own:
            least = -1 if name == "meta.bandit.arms" else 0
            if (data < least).any() or (data >= below.get(name, np.inf)).any():
                raise ValueError(f"saved state: {name} holds a number out of range")
        arrays.append(data)
    leaves = iter(arrays)
    return tree_map(lambda _: next(leaves), state)
