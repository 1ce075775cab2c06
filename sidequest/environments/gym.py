"""Gymnasium environments on the host: `gymnasium:ID`, or `package.module:function`.

A process holds the environments of one group and steps them one after the other; groups run
side by side. It is given the game's name, and makes the environments itself. Such a process
does not load JAX, so nothing here imports it.
"""

from __future__ import annotations

import difflib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sidequest.errors import EnvironmentFault
from sidequest.types import EnvironmentSpec, Timestep

if TYPE_CHECKING:
    from sidequest.environments.base import HostedGame

_SPAWN = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would lose
_LIBRARY = str(Path(os.__file__).parent)
_NOT_THEIRS = ("site-packages", "<frozen", _LIBRARY, str(Path(__file__).parent))
"""Parts of the paths of code that is not the user's."""
_UNBOUNDED = 1e6
"""A bound from which on a space says nothing about the size of an observation."""
_LARGEST = float(np.finfo(np.float32).max)
"""A reward: the agent counts in this type, where more would be infinite."""
_FILM_HEIGHT = 240
"""Pixels of a rendered frame that are kept; larger frames are thinned out."""


def make(name: str, environment: Any, sticky_actions: float) -> HostedGame:
    """Returns the game that this environment is one of; no process is started yet. Raises
    `BrokenRule` if an agent cannot play it."""
    from sidequest.environments.base import HostedGame

    _, spec = prepare(name, environment)
    return HostedGame(partial(_build_groups, spec, sticky_actions), spec, renders=True)


def _build_groups(
    spec: EnvironmentSpec,
    sticky_actions: float,
    *,
    groups: int,
    environments: int,
    seed: int,
    threads: int = 1,
    renders: bool = False,
    progress: Callable[[int, int], None] = lambda built, total: None,
) -> list["GymGroup"]:
    """Starts a process for each group; `threads` are of no use to Python."""
    del threads
    words = np.random.SeedSequence(seed).generate_state(groups * environments, np.uint32)
    seeds = (words >> 1).reshape(groups, environments).tolist()
    built = [GymGroup(spec, sticky_actions, some, renders) for some in seeds]
    try:
        for number, group in enumerate(built, 1):
            group.wait()
            progress(number * environments, groups * environments)
    except BaseException:
        for group in built:
            group.close()
        raise
    return built


class GymGroup:
    """Environments in a process of their own; a `HostedEnvironment`."""

    def __init__(
        self, spec: EnvironmentSpec, sticky_actions: float, seeds: list[int], renders: bool
    ):
        self.spec = spec
        self._first: Timestep | None = None
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_step_forever,
            args=(theirs, spec.name, sticky_actions, seeds, renders),
            daemon=True,
        )
        self._process.start()
        theirs.close()  # or its end would never be seen

    def wait(self) -> None:
        """Waits until the environments are made and reset."""
        self._first = Timestep(*self._read())

    def send(self, actions: np.ndarray) -> None:
        try:
            self._pipe.send(np.asarray(actions))
        except OSError:
            self._read()  # the process has ended, and may have said why

    def recv(self) -> Timestep:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return Timestep(*self._read())

    def render(self) -> np.ndarray | None:
        """Returns what the first environment paints of itself, if it does."""
        self._pipe.send(None)
        return self._read()

    def close(self) -> None:
        self._pipe.close()
        self._process.join(timeout=5.0)
        self._process.kill()
        self._process.join()

    def _read(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = f"its process ended with exit code {self._process.exitcode}"
        if isinstance(answer, str):
            raise EnvironmentFault(f"{self.spec.name} failed: {answer}")
        return answer


def load(name: str) -> Callable[..., Any]:
    """Returns the function behind `gymnasium:ID` or `package.module:function`.

    Raises:
        Exception: Whatever goes wrong; the message says what.
    """
    place, _, rest = name.partition(":")
    if place == "gymnasium":
        import gymnasium

        if rest.startswith("ALE/"):
            ale = import_module("ale_py")
            ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)
        module, _, identifier = rest.rpartition(":")  # Gymnasium's own way to import
        if module:
            import_module(module)
        if identifier not in gymnasium.registry:
            for near in difflib.get_close_matches(identifier, gymnasium.registry, 1):
                raise BrokenRule(f"Did you mean {name.removesuffix(identifier)}{near}?")
        gymnasium.spec(identifier)
        return lambda **options: gymnasium.make(
            identifier, disable_env_checker=True, **options
        )
    if "/" in place or "\\" in rest or place.endswith(".py"):
        raise BrokenRule("Name a module, not a file, as in mine:make_env for mine.py here.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            where = f"on Python's path or in {os.getcwd()}."
            raise BrokenRule(f"No module named {error.name!r} {where}") from None
        raise  # one that the user's module imports
    found = getattr(module, rest)
    if not callable(found):
        raise BrokenRule("It is not a function that returns an environment.")
    return found


def prepare(
    name: str, environment: Any, sticky_actions: float = 0.0
) -> tuple[Any, EnvironmentSpec]:
    """Returns an environment that repeats actions and shows vectors or images, and its
    spec.

    Raises:
        BrokenRule: If it has other spaces than an agent can play.
    """
    from gymnasium import Env, spaces, wrappers

    if not isinstance(environment, Env):
        raise BrokenRule(
            f"it is of type {type(environment).__name__}, not a Gymnasium environment"
        )
    actions, shown = environment.action_space, environment.observation_space
    if not isinstance(actions, spaces.Discrete):
        raise BrokenRule(f"its actions are {actions}; only Discrete actions can be learned")
    if isinstance(shown, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        environment = wrappers.FlattenObservation(environment)
        shown = environment.observation_space
    if not isinstance(shown, spaces.Box) or len(shown.shape) not in (1, 2, 3):
        raise BrokenRule(
            f"its observations are {shown}; they must be a vector or an image (Box). "
            f"Choose or join parts of them with a wrapper, in a function of your own"
        )
    image = shown.dtype == np.uint8
    if image and len(shown.shape) == 3 and _is_channel_first(*shown.shape):
        raise BrokenRule(
            f"its images have the shape {shown.shape}, with channels first; the agent sees "
            "(height, width, channels). Transpose them with a wrapper, in a function of "
            "your own"
        )
    if sticky_actions:
        environment = wrappers.StickyAction(environment, sticky_actions)
    return environment, EnvironmentSpec(
        name=name,
        observation_shape=shown.shape if len(shown.shape) != 2 else (*shown.shape, 1),
        observation_dtype=np.dtype(np.uint8 if image else np.float32),
        num_actions=int(actions.n),
        maximum=float(_bounds(shown).max()) if image else 1.0,
        max_steps=getattr(environment.spec, "max_episode_steps", None),
    )


def _is_channel_first(first: int, second: int, third: int) -> bool:
    """Returns whether an image looks like PyTorch's, on which training would go wrong."""
    return first in (1, 3, 4) and second == third > 4


def _bounds(space: Any) -> np.ndarray:
    """Returns the largest size of each number of a Box, or 1 where there is no bound."""
    # The size of an integer's lowest number does not fit its own type.
    low, high = (np.abs(side.astype(np.float32)) for side in (space.low, space.high))
    bound = np.maximum(low, high)
    return np.where((bound > 0) & (bound < _UNBOUNDED), bound, 1.0)


def _step_forever(
    pipe: Connection, name: str, sticky_actions: float, seeds: Sequence[int], renders: bool
) -> None:
    """Is the main function of a process: answers actions with timesteps, until they end.

    A message is an array of actions, or None for the frame of the first environment. An
    answer is a timestep [B] as a tuple, a frame, or an error as a text.
    """
    # A signal to all processes of a terminal or a job is for the parent, which saves.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what environments print is not the command's output
    # Frames are painted without a screen, and nothing is played aloud.
    os.environ |= {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    group: list[_Single] = []
    try:
        group = [_Single(name, sticky_actions, renders) for _ in seeds]
        timesteps = [one.reset(seed) for one, seed in zip(group, seeds, strict=True)]
        while True:
            pipe.send(tuple(map(np.stack, zip(*timesteps, strict=True))))
            while (actions := pipe.recv()) is None:
                pipe.send(group[0].render())
            timesteps = [one.step(a) for one, a in zip(group, actions, strict=True)]
    except EOFError:
        pass  # the group was closed
    except Exception as error:
        with suppress(OSError):
            pipe.send(describe(error))
    for one in group:
        with suppress(Exception):  # nothing depends on it any more
            one.close()


def _end_with_parent() -> None:
    """Ends the process with the one that started it, even if an environment hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _unpack(returned: Any, method: str, expected: str) -> tuple:
    """Returns what a method returned, if it is as many values as Gymnasium's."""
    several = isinstance(returned, (tuple, list))
    if not several or len(returned) != expected.count(",") + 1:
        values = f"{len(returned)} values" if several else "one value"
        raise BrokenRule(f"{method} returned {values}; Gymnasium's returns {expected}")
    return tuple(returned)


class BrokenRule(ValueError):
    """An environment has, or returned, what an agent cannot learn from."""


def describe(error: BaseException) -> str:
    """Returns an error in one line, with the last place in the user's own code."""
    text = " ".join(str(error).split())
    if isinstance(error, BrokenRule):
        return text
    places = [
        f" ({frame.filename}:{frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(part in frame.filename for part in _NOT_THEIRS)
    ]
    return f"{type(error).__name__}: {text}{''.join(places[-1:])}"


class _Single:
    """One environment, which never ends: see `sidequest.types`."""

    def __init__(self, name: str, sticky_actions: float, renders: bool):
        make, made = load(name), None
        if renders:
            with suppress(Exception):  # not every environment does, or every function asks
                made = make(render_mode="rgb_array")
        made = make() if made is None else made
        self._environment, self._spec = prepare(name, made, sticky_actions)
        self._shown = self._environment.observation_space
        self._scale = _bounds(self._shown)
        self._first_action = int(self._environment.action_space.start)

    def reset(self, seed: int | None = None) -> tuple[Any, ...]:
        """Begins an episode; returns its first timestep."""
        returned = self._environment.reset(seed=seed)
        observation, _ = _unpack(returned, "reset", "observation, info")
        return self._read(observation), np.float32(0), False, False, True

    def step(self, action: int) -> tuple[Any, ...]:
        """Returns the next timestep; that of an episode's end begins another one."""
        returned = self._environment.step(int(action) + self._first_action)
        observation, reward, terminated, truncated, _ = _unpack(
            returned, "step", "observation, reward, terminated, truncated, info"
        )
        if np.ndim(reward) or np.asarray(reward).dtype.kind not in "biuf":
            raise BrokenRule(f"step returned the reward {reward!r}, which is no number")
        if not abs(reward) <= _LARGEST:
            raise BrokenRule(f"step returned the reward {reward}")
        observation = self._read(observation)
        if terminated or truncated:
            observation = self.reset()[0]
        terminated, ended = bool(terminated), bool(terminated or truncated)
        return observation, np.float32(reward), terminated, ended and not terminated, ended

    def close(self) -> None:
        """Lets the environment end what it has started."""
        self._environment.close()

    def _read(self, observation: Any) -> np.ndarray:
        """Returns an observation as the agent sees it."""
        spec, observation = self._spec, np.asarray(observation)
        if observation.shape != self._shown.shape:
            raise BrokenRule(
                f"an observation has shape {observation.shape}; "
                f"its space says {self._shown.shape}"
            )
        if spec.observation_dtype == np.uint8:  # the network divides them
            seen = observation.astype(np.uint8, copy=False)
            if seen is not observation and (seen != observation).any():
                raise BrokenRule(
                    f"an observation has numbers of type {observation.dtype} that are no "
                    f"bytes; its space says uint8"
                )
        else:
            seen = (observation / self._scale).astype(np.float32)
            if not np.isfinite(seen).all():
                raise BrokenRule("an observation has numbers that are not finite")
        return seen.reshape(spec.observation_shape)

    def render(self) -> np.ndarray | None:
        """Returns the environment's own picture, if it paints one."""
        try:
            frame = np.asarray(self._environment.render())
        except Exception:  # such as a library for drawing that is not installed
            return None
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            return None
        thin = -(-len(frame) // _FILM_HEIGHT)
        return frame[::thin, ::thin]
