"""`sidequest bench`: measures speed, and prints ratios of what ran side by side."""

import json as jsons
import sys
from typing import Annotated, Any

from tyro.conf import Positional

from sidequest.cli.options import (
    Flag,
    check_range,
    option,
    refuse,
    refuse_empty,
    use_all_cores,
)
from sidequest.errors import InvalidRequest, unknown

_BENCHMARKS = ("switching", "agent", "atari")
_SHAPES = ("small", "rival")


def bench(
    what: Annotated[Positional[str], option("{switching,agent,atari}")],
    /,
    game: Annotated[str | None, option("GAME")] = None,
    shape: Annotated[str | None, option("{small,rival}", "small")] = None,
    population: Annotated[tuple[int, ...] | None, option("NUMBER …")] = None,
    emulators: Annotated[int | None, option("NUMBER")] = None,
    json: Flag = False,
) -> None:
    """Measures speed on this machine.

    For example:
      sidequest bench agent --population 1 16
      sidequest bench atari --game ms_pacman --emulators 1536

    Args:
        what: switching: a controller's cost beside plain epsilon-greedy. agent: the whole
            compiled loop on a JAX-native game. atari: emulators alone, then with the agent,
            part by part.
        game: Name of a game. By default minatar:breakout for agent, frostbite for atari.
        shape: agent: the preset small, or the shape of the nearest public JAX R2D2.
        population: agent: how many runs train together. By default it measures 1, 4 and 16,
            or 1 for rival.
        emulators: atari: how many run side by side. By default 96 per core, at most 1,536.
        json: Print one JSON object and nothing else.
    """
    if what not in _BENCHMARKS:
        raise InvalidRequest(unknown("benchmark", what, _BENCHMARKS))
    if shape is not None and shape not in _SHAPES:
        raise InvalidRequest(unknown("shape", shape, _SHAPES))
    refuse_empty(population=population)
    if what != "atari":
        refuse("only `bench atari` has emulators", emulators=emulators)
    if what != "agent":
        said = "only `bench agent` has shapes and populations"
        refuse(said, shape=shape, population=population)
    if what == "switching":
        refuse("`bench switching` plays no game", game=game)
    if game is not None:
        from sidequest.environments import registry

        registry.check(game)
        if what == "atari" and not registry.is_atari(game):
            raise InvalidRequest(
                f"{game} is no Atari game; `sidequest bench agent` measures JAX-native ones"
            )
    for runs in population or ():
        check_range("population", runs, 1)
    check_range("emulators", emulators, 1)
    if what == "switching":
        from sidequest.bench import switching

        figures = switching.measure()
    elif what == "agent":
        from sidequest.bench import agent

        use_all_cores()
        shape = shape or "small"
        population = population or ((1,) if shape == "rival" else (1, 4, 16))
        figures = agent.measure(shape, game or "minatar:breakout", population, _say)
    else:
        from sidequest.bench import atari

        figures = atari.measure(game or "frostbite", emulators=emulators, say=_say)
    if json:
        print(jsons.dumps(figures))
    else:
        print_figures(figures)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_figures(figures: dict[str, Any], indent: str = "") -> None:
    """Prints nested figures as an indented list."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            print_figures(value, indent + "  ")
        else:
            print(f"{indent}{name:<24} {_as_text(value)}")


def _as_text(value: Any) -> str:
    """Returns measurements with four digits or as whole numbers, all else as it is."""
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
