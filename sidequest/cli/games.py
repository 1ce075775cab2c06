"""`sidequest games`: the games that there are."""

from typing import Annotated

from tyro.conf import Positional

from sidequest.cli.options import Flag, option


def games(
    suite: Annotated[Positional[str | None], option("[SUITE]")] = None,
    /,
    json: Flag = False,
) -> None:
    """Lists all games by name, with the scores of a random player and a human.

    Args:
        suite: Only this suite, such as atari, minatar, minigrid, bsuite, classic or probe.
        json: Print a JSON list and nothing else.
    """
    from sidequest.environments import registry
    from sidequest.errors import InvalidRequest

    listed = registry.games()
    suites = sorted({game.suite for game in listed})
    if suite is not None and suite not in suites:
        raise InvalidRequest(f"no suite {suite!r}; there are {', '.join(suites)}")
    listed = [game for game in listed if suite in (None, game.suite)]
    if json:
        import json as writer

        print(writer.dumps([game._asdict() for game in listed]))
        return
    print(f"{'game':<36}{'random':>10}{'human':>10}")
    for game in listed:
        scores = (game.random_score, game.human_score)
        shown = "".join(f"{'' if one is None else f'{one:,.1f}':>10}" for one in scores)
        print(f"{game.name:<36}{shown}")
