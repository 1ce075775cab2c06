"""`sidequest bench`: measures speed, and prints ratios of what ran side by side."""

from typing import Annotated, Any, Literal

import tyro


def bench(
    what: tyro.conf.Positional[Literal["switching", "agent"]],
    /,
    shape: Literal["small", "rival"] = "small",
    game: str = "minatar:breakout",
    members: tuple[int, ...] = (1, 4, 16),
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Measures speed on this machine.

    Args:
        what: switching: a controller's cost beside plain epsilon-greedy. agent: the whole
            compiled loop.
        shape: agent: the preset small, or the shape of the nearest public JAX R2D2.
        game: agent: a JAX-native game.
        members: agent: sizes of populations.
        json: Print one JSON object and nothing else.
    """
    if what == "switching":
        from sidequest.bench.switching import measure

        figures = measure()
    else:
        from sidequest.bench.agent import measure as measure_agent
        from sidequest.environments import registry

        registry.check(game)
        figures = measure_agent(shape, game, members)
    if json:
        import json as writer

        print(writer.dumps(figures))
    else:
        show(figures)


def show(figures: dict[str, Any], indent: str = "") -> None:
    """Prints nested figures as an indented list."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")
        else:
            number = f"{value:,.4g}" if isinstance(value, float) else value
            print(f"{indent}{name:<24} {number}")
