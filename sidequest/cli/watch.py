"""`sidequest watch`: films one episode of a run's agent."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from sidequest.cli.options import Flag, option
from sidequest.errors import InvalidRequest


def watch(
    run: Annotated[Positional[Path], option("RUN")],
    /,
    out: Annotated[Path, option("FILE")] = Path("episode.mp4"),
    seed: Annotated[int, option("NUMBER")] = 0,
    greedy: Flag = False,
    max_steps: Annotated[int, option("NUMBER")] = 3_000,
    fps: Annotated[int, option("STEPS-PER-SECOND")] = 15,
) -> None:
    """Films one episode: the game, beside a strip of modes, trigger signal and reward.

    Args:
        run: Folder of a run, as `sidequest train` prints it.
        out: The file to write, .mp4 or .gif.
        seed: Of the episode, 0 or more.
        greedy: Exploit only, as the evaluator does; else modes switch as in training.
        max_steps: Where a longer episode is cut, 1 or more; Atari takes 0.1 MB of memory a
            step.
        fps: Steps shown in a second, 1 to 100, or to 50 for .gif; at 15, Atari runs at its
            own speed.
    """
    from sidequest.cli.progress import Meter
    from sidequest.cli.settings import use_compilation_cache

    check(run, out, seed, max_steps, fps)
    use_compilation_cache()

    from sidequest.figures.film import Caption, draw_film, make_renderer, save_film
    from sidequest.runs.player import load_player
    from sidequest.runs.watch import watch as play

    player, meter = load_player(run), Meter()
    episode = play(
        player,
        seed=seed,
        greedy=greedy,
        max_steps=max_steps,
        report=lambda steps: meter(f"playing, {steps:,} steps"),
    )
    steps, spec = len(episode.trace.modes), player.game.spec
    ending = f"cut at {steps:,} steps" if episode.ending == "cut" else episode.ending
    title = f"{player.variant}{', greedy' if greedy else ''}"
    caption = Caption(title, f"{spec.name}, seed {seed}", ending)
    render = make_renderer(episode.observations, spec.maximum, spec.categories)

    def frames():
        for number, frame in enumerate(draw_film(render, episode.trace, caption), 1):
            meter(f"drawing, {number:,} of {steps:,} frames")
            yield frame

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        path = save_film(frames(), out, fps)
    except OSError as error:
        raise InvalidRequest(f"cannot write to {out}: {error.strerror}") from error
    meter.clear()
    say(f"{steps:,} steps, return {episode.trace.reward.sum():.4g}, {ending}")
    print(path)


def check(run: Path, out: Path, seed: int, max_steps: int, fps: int) -> None:
    """Refuses at once what would fail after the episode was played."""
    from sidequest.figures.film import FASTEST_GIF, HINT, SUFFIXES
    from sidequest.records import RUN_FILE

    if out.suffix not in SUFFIXES:
        raise InvalidRequest(f"out is {str(out)!r}; it ends with {' or '.join(SUFFIXES)}")
    if seed < 0 or max_steps < 1 or not 1 <= fps <= 100:
        raise InvalidRequest(
            f"seed is {seed}, max_steps {max_steps} and fps {fps}; "
            f"allowed are 0 or more, 1 or more, and 1 to 100"
        )
    if out.suffix == ".gif" and fps > FASTEST_GIF:
        raise InvalidRequest(
            f"fps is {fps}; a .gif shows {FASTEST_GIF} steps a second at most"
        )
    if not (run / RUN_FILE).exists():
        raise InvalidRequest(f"{run} holds no run: there is no {RUN_FILE} in it")
    check_place(out)
    if out.suffix == ".mp4":
        try:
            import av  # noqa: F401
        except ImportError as error:
            raise InvalidRequest(HINT) from error


def check_place(out: Path) -> None:
    """Tries whether a file can be made there; leaves nothing behind, makes no folder."""
    try:
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        nearest = next(one for one in out.absolute().parents if one.exists())
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise InvalidRequest(f"cannot write to {out}: {error.strerror}") from error


def say(text: str) -> None:
    import sys

    print(text, file=sys.stderr)
