"""`sidequest games`, `evaluate` and `watch`: the games, and how a run's agent plays."""

import errno
import itertools
import json as jsons
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from sidequest.cli.options import (
    Flag,
    check_range,
    check_run,
    option,
    use_compilation_cache,
)
from sidequest.errors import CannotWrite, InvalidRequest, unknown

if TYPE_CHECKING:
    from sidequest.environments.registry import Game

_SUITES = {
    "minatar": "arcade games of 10 x 10 pixels, compiled",
    "minigrid": "grid worlds with sparse rewards, compiled",
    "classic": "control, compiled",
    "bsuite": "exploration and memory, compiled",
    "probe": "tasks of a few steps that check an agent, compiled",
    "atari": "raw frames, on emulators; those with reference scores first",
}

_FILM = "episode.mp4, or episode.gif without PyAV"
"""The file that `watch` writes unless one is named."""


def games(
    suite: Annotated[Positional[str | None], option("[SUITE]")] = None,
    /,
    json: Flag = False,
) -> None:
    """Lists all games by suite: games that train in minutes first, Atari last.

    random, human: mean returns of a random policy and a human, where known.

    sticky: probability that an action is repeated.

    gymnasium:ID names any Gymnasium environment, as in gymnasium:CartPole-v1.

    module:function names a function that returns an environment of your own.

    For example:
      sidequest games minatar
      sidequest games --json

    Args:
        suite: Only this suite, such as atari, minatar, minigrid, bsuite, classic or probe.
        json: Print a JSON list and nothing else.
    """
    from sidequest.environments import registry

    listed = sorted(registry.games(), key=_usefulness)
    suites = list(dict.fromkeys(game.suite for game in listed))
    if suite is not None and suite not in suites:
        raise InvalidRequest(unknown("suite", suite, suites))
    listed = [game for game in listed if suite in (None, game.suite)]
    if json:
        print(jsons.dumps([game._asdict() for game in listed]))
        return
    print(f"{'game':<36}{'random':>10}{'human':>10}{'sticky':>10}")
    for name, own in itertools.groupby(listed, lambda game: game.suite):
        print(f"\n{name}: {_SUITES.get(name, 'your own')}")
        for game in own:
            shown = f"{_score(game.random_score):>10}{_score(game.human_score):>10}"
            print(f"  {game.name:<34}{shown}{game.sticky_actions:>10g}")


def _score(score: float | None) -> str:
    """Returns a reference score as text, with two digits at least."""
    if score is None:
        return ""
    return f"{score:,.1f}" if abs(score) >= 10 else f"{score:.2g}"


def _usefulness(game: "Game") -> tuple:
    """Returns a key that sorts by suite, and games with known scores first."""
    place = [*_SUITES].index(game.suite) if game.suite in _SUITES else len(_SUITES)
    return place, game.random_score is None, game.human_score is None


def evaluate(
    run: Annotated[Positional[Path], option("RUN")],
    /,
    episodes: Annotated[int, option("NUMBER")] = 30,
    seed: Annotated[int, option("NUMBER")] = 0,
    json: Flag = False,
) -> None:
    """Plays greedy episodes with a run's parameters and prints their scores.

    For example:
      sidequest evaluate runs/XU-step-level-0_01/minatar-breakout/seed-0
      sidequest evaluate RUN --episodes 100 --json

    Args:
        run: Folder of a run, as `sidequest train` prints it.
        episodes: How many episodes to play, 1 to 100000.
        seed: The random seed of the episodes, 0 or more.
        json: Print one JSON object and nothing else.
    """
    check_range("episodes", episodes, 1, 100_000)
    check_range("seed", seed, 0)
    check_run(run)
    use_compilation_cache()

    from sidequest.runs.display import make_display
    from sidequest.runs.evaluation import evaluate_run

    with make_display() as display:

        def report(ended: int, steps: int) -> None:
            display.count(
                f"{ended} of {episodes} episodes, {steps:,} steps", ended, episodes
            )

        scores = evaluate_run(run, episodes, seed, report)
    print(jsons.dumps(scores) if json else describe_scores(scores))


def describe_scores(scores: dict[str, Any]) -> str:
    """Returns what `evaluate_run` found, in a few lines."""
    from sidequest.wording import plural, rounded

    played = plural(scores["episodes"], "greedy episode")
    lines = [
        f"{scores['variant']} on {scores['game']}, seed {scores['seed']}",
        f"return  {rounded(scores['mean'])} (mean of {played})",
        f"        {rounded(scores['min'])} to {rounded(scores['max'])}, "
        f"median {rounded(scores['median'])}",
        f"length  {rounded(scores['length'])} (mean)",
    ]
    if scores["human_normalised"] is not None:
        normalised = f"{scores['human_normalised']:.1%}"
        lines.append(f"human   {normalised} (0% is a random policy, 100% a human)")
    return "\n".join(lines)


def watch(
    run: Annotated[Positional[Path], option("RUN")],
    /,
    out: Annotated[Path | None, option("FILE", _FILM)] = None,
    seed: Annotated[int, option("NUMBER")] = 0,
    greedy: Flag = False,
    max_steps: Annotated[int, option("NUMBER")] = 3_000,
    fps: Annotated[int, option("STEPS-PER-SECOND")] = 15,
) -> None:
    """Films one episode: the game, beside a strip of modes, trigger signal and reward.

    For example:
      sidequest watch runs/XU-step-level-0_01/minatar-breakout/seed-0
      sidequest watch RUN --greedy --out greedy.gif

    Args:
        run: Folder of a run, as `sidequest train` prints it.
        out: The file to write, .mp4 or .gif.
        seed: The random seed of the episode, 0 or more.
        greedy: Exploit only, as the evaluator does. Otherwise modes switch as in training.
        max_steps: Film at most this many steps, 1 or more. Atari takes 0.1 MB of memory a
            step.
        fps: Steps shown per second, 1 to 100 (1 to 50 for .gif). At 15, Atari runs at its
            own speed.
    """
    check_range("seed", seed, 0)
    check_range("max-steps", max_steps, 1)
    check_range("fps", fps, 1, 100)
    out = out or Path("episode.mp4" if find_spec("av") else "episode.gif")
    _check_film(out, fps)
    check_run(run)
    if out.exists():
        print(f"{out} is there already and will be replaced", file=sys.stderr)
    use_compilation_cache()

    from sidequest.figures.film import Caption, draw_film, make_renderer, save_film
    from sidequest.runs.display import make_display
    from sidequest.runs.evaluation import load_player, play_episode
    from sidequest.wording import plural, rounded

    player = load_player(run)
    with make_display() as display:
        episode = play_episode(
            player,
            seed=seed,
            greedy=greedy,
            max_steps=max_steps,
            report=lambda n: display.count(f"playing, step {n:,}", n, max_steps + 1),
        )
        steps, spec = len(episode.trace.modes), player.game.spec
        played = plural(steps, "step")
        ending = f"cut at {played}" if episode.ending == "cut" else episode.ending
        title = f"{player.spec.variant}{', greedy' if greedy else ''}"
        caption = Caption(title, f"{spec.name}, seed {player.spec.seed}", ending)
        render = make_renderer(episode.observations, spec.maximum, spec.categories)
        if episode.frames is not None:
            render = episode.frames.__getitem__

        def frames():
            for drawn, frame in enumerate(draw_film(render, episode.trace, caption), 1):
                display.count(f"drawing, {drawn:,} of {steps:,} frames", drawn, steps + 1)
                yield frame

        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            path = save_film(frames(), out, fps)
        except OSError as error:
            raise CannotWrite(f"cannot write to {out}: {error.strerror}") from error
    total = episode.trace.reward.sum()
    print(f"{played}, return {rounded(total)}, {ending}", file=sys.stderr)
    print(path)


def _check_film(out: Path, fps: int) -> None:
    """Refuses early what would fail after the episode was played; leaves no file behind."""
    from sidequest.figures.film import FASTEST_GIF, HINT, SUFFIXES

    if out.suffix not in SUFFIXES:
        raise InvalidRequest(f"--out is {str(out)!r}; it ends with {' or '.join(SUFFIXES)}")
    if out.suffix == ".gif" and fps > FASTEST_GIF:
        raise InvalidRequest(
            f"--fps is {fps}; a .gif shows {FASTEST_GIF} steps a second at most"
        )
    try:
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        nearest = next(one for one in out.absolute().parents if one.exists())
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise CannotWrite(f"cannot write to {out}: {error.strerror}") from error
    if out.suffix == ".mp4" and find_spec("av") is None:
        raise InvalidRequest(HINT)
