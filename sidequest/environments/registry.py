"""Games by name: `suite:game`, a bare ROM name for Atari, or an environment of your own,
`gymnasium:ID` or `package.module:function`."""

import difflib
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from sidequest.environments import atari, gym, suites
from sidequest.environments.base import (
    CompiledEnvironment,
    HostedGame,
    State,
    with_sticky_actions,
)
from sidequest.environments.scores import KNOWN, Known
from sidequest.errors import InvalidRequest
from sidequest.types import EnvironmentSpec, Timestep

Factory: TypeAlias = Callable[[], CompiledEnvironment | HostedGame]

_STICKY_ELSEWHERE = "it starts its own emulators: they are the place for sticky actions"

_STICKY_ACTIONS = {"atari": 0.25, "minatar": 0.1, "minigrid": 0.1, "classic": 0.1}
"""Probability that an action is repeated, by suite. Atari's is the paper's, at every frame:
8% of the frames that an action lasts show the one before. MinAtar's is the published one;
0.1 at every step is also the nearest to Atari's, so games that have none of their own get
the same. bsuite and the probes stay as they are: their answers are known."""

_COMPILED = ("minatar", "bsuite", "classic", "minigrid", "probe")
_LARGEST_GRID = 32
"""Pixels of a side, up to which the small preset's convolutions fit an image."""

_registered: dict[str, Factory] = {}


class Game(NamedTuple):
    """A game as listed by `sidequest games`."""

    name: str
    suite: str
    random_score: float | None
    """Mean return of a random policy, if known."""
    human_score: float | None
    sticky_actions: float
    """Probability that an action is repeated, unless a setting says otherwise."""


def make(
    name: str, sticky_actions: float | None = None
) -> CompiledEnvironment | HostedGame:
    """Builds a game: a compiled one ready to use, or one on the host to start groups of.
    Raises `InvalidRequest`, with the nearest names that exist.

    Args:
        sticky_actions: Probability that an action is repeated; None: the game's own.
    """
    check(name)
    sticky = resolve_sticky_actions(name, sticky_actions)
    if is_atari(name):
        return atari.make(name, sticky)
    own = name not in _factories()
    game = _make_own(name, sticky) if own else _factories()[name]()
    if isinstance(game, CompiledEnvironment):
        return with_sticky_actions(game, sticky)
    if not isinstance(game, HostedGame):
        raise InvalidRequest(
            f"{name}: the function that was registered returned a {type(game).__name__}, "
            f"neither a CompiledEnvironment nor a HostedGame"
        )
    if sticky and not own:
        raise InvalidRequest(f"{name}: {_STICKY_ELSEWHERE}")
    return game


@cache
def _make_own(name: str, sticky: float) -> CompiledEnvironment | HostedGame:
    """Builds a game from what a function of the user's, or Gymnasium's, returns."""
    try:
        with redirect_stdout(sys.stderr):  # what it prints is not the command's output
            made = gym.load(name)()
        if isinstance(made, CompiledEnvironment | HostedGame):
            _check_spec(made.spec)
        if isinstance(made, CompiledEnvironment):  # fails now, if it does
            jax.eval_shape(partial(_play, made))
        if isinstance(made, HostedGame) and sticky:
            raise gym.BrokenRule(_STICKY_ELSEWHERE)
        if isinstance(made, CompiledEnvironment | HostedGame):
            return made
        game = gym.make(name, made, sticky)
        _check_spec(game.spec)
        with suppress(Exception):  # one that was never reset may not know how to close
            made.close()
        return game
    except (Exception, SystemExit) as error:
        fault = gym.describe(error)
        raise InvalidRequest(f"{name} cannot be played: {fault}") from error


def _check_spec(spec: EnvironmentSpec) -> None:
    """Raises `BrokenRule` unless there is something to see, and something to do."""
    sizes = {
        "observation_shape": spec.observation_shape,
        "num_actions": (spec.num_actions,),
        "categories": spec.categories or (),
        "frames_per_step": (spec.frames_per_step,),
        "max_steps": () if spec.max_steps is None else (spec.max_steps,),
    }
    for name, numbers in sizes.items():
        if not all(isinstance(n, int | np.integer) and n >= 1 for n in numbers):
            found = getattr(spec, name)
            raise gym.BrokenRule(
                f"its {name} is {found}; it is a whole number of 1 or more"
            )
    if not 0 < spec.maximum < np.inf:
        raise gym.BrokenRule(f"its maximum is {spec.maximum}; it is above 0")
    if spec.categories and spec.observation_shape[-1:] != (len(spec.categories),):
        raise gym.BrokenRule(
            f"its categories are {spec.categories}, not one for each index of observations "
            f"of shape {spec.observation_shape}"
        )


def _play(environment: CompiledEnvironment) -> Any:
    """Plays two steps in a loop, as training does: it carries no state whose type, shape or
    structure changes from one step to the next."""
    key = jax.random.key(0)

    # JAX's message has the argument's name.
    def step(state_and_timestep: tuple[State, Timestep], _: None) -> tuple[Any, None]:
        return environment.step(key, state_and_timestep[0], jnp.int32(0)), None

    return jax.lax.scan(step, environment.reset(key), length=2)


def resolve_sticky_actions(name: str, sticky_actions: float | None = None) -> float:
    """Returns the requested probability, or the game's own."""
    if sticky_actions is not None:
        return sticky_actions
    return 0.0 if name in _registered else _STICKY_ACTIONS.get(_suite(name), 0.0)


def register(name: str, factory: Factory) -> None:
    """Adds a game of your own under a new name, `suite:game`."""
    if is_atari(name):
        raise ValueError(f"Name it suite:game, not {name!r}; bare names are Atari's.")
    if name in _factories():
        raise ValueError(f"There is a game called {name!r} already.")
    _registered[name] = factory


def games() -> list[Game]:
    """Returns all games that `make` knows, by suite, with reference scores."""
    known = {name: KNOWN.get(name, Known()) for name in _factories()}
    return [
        Game(name, _suite(name), one.random, one.human, resolve_sticky_actions(name))
        for name, one in known.items()
    ]


def check(name: str) -> None:
    """Raises `InvalidRequest` unless `make` knows the name. Imports no game library, except
    for an environment of the user's own."""
    names = list(_factories())
    if name in names:
        return
    nearest = _nearest(name, names)
    if re.search(r"-v\d+$", name):  # an id of Gymnasium
        nearest = [*nearest, f"gymnasium:{name}"]
    hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    if not is_atari(name) and _suite(name) not in _COMPILED:
        try:
            with redirect_stdout(sys.stderr):
                gym.load(name)
            return
        except (Exception, SystemExit) as error:
            also = "" if _suite(name) == "gymnasium" else hint
            hint = f" {gym.describe(error)}{also}"
    hint = hint or " `sidequest games` lists them."
    raise InvalidRequest(f"There is no game called {name!r}.{hint}")


def kind(name: str) -> Literal["compiled", "hosted", "frames"]:
    """Returns where a game runs: compiled, or on the host, as Atari and Gymnasium's do; and
    whether it shows frames there, images larger than a grid of cells."""
    check(name)
    if is_atari(name):
        return "frames"
    ours = _suite(name) in _COMPILED and name not in _registered
    if ours or isinstance(game := make(name), CompiledEnvironment):
        return "compiled"
    shape = game.spec.observation_shape
    return "frames" if len(shape) == 3 and min(shape[:2]) > _LARGEST_GRID else "hosted"


def fitting_preset(preset: str, name: str) -> str:
    """Returns the preset to use on a game; raises `InvalidRequest` if there is none."""
    if preset == "paper" and kind(name) == "compiled":
        raise InvalidRequest(f"the paper's settings are for Atari's frames, not for {name}")
    return "small-frames" if (preset, kind(name)) == ("small", "frames") else preset


def is_atari(name: str) -> bool:
    """Returns whether a game is an Atari ROM; names of other suites have a colon."""
    return ":" not in name


def _suite(name: str) -> str:
    return "atari" if is_atari(name) else name.split(":")[0]


def _factories() -> dict[str, Factory]:
    return {
        **{name: partial(atari.make, name) for name in atari.rom_names()},
        **{name: partial(suites.make_gymnax, name) for name in suites.GYMNAX},
        **{name: partial(suites.make_minigrid, name) for name in suites.MINIGRID},
        **{
            name: partial(suites.make_probe, name, rules)
            for name, rules in suites.PROBES.items()
        },
        **_registered,
    }


def _nearest(name: str, names: list[str]) -> list[str]:
    """Returns up to three similar names, with or without the suite, in any spelling."""
    spellings: dict[str, list[str]] = {}
    for known in names:
        for spelling in {known, known.split(":")[-1]}:
            spellings.setdefault(spelling, []).append(known)
    wanted = name.lower().replace("-", "_")
    found = difflib.get_close_matches(wanted, spellings)
    return list(dict.fromkeys(known for like in found for known in spellings[like]))[:3]
