"""`sidequest bench`: measures speed, and prints ratios of what ran side by side."""

from typing import Annotated, Any, Literal

import tyro


def bench(
    what: tyro.conf.Positional[Literal["switching"]],
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Measures speed on this machine.

    Args:
        what: switching: a controller's cost beside plain epsilon-greedy.
        json: Print one JSON object and nothing else.
    """
    from importlib import import_module

    figures = import_module(f"sidequest.bench.{what}").measure()
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
