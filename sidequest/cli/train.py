"""`sidequest train`: trains agents and leaves records of how they explored and scored."""

import contextlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from tyro.conf import Positional, UseAppendAction

from sidequest.cli.launches import Launch, again, fresh_folders, launches_to_resume
from sidequest.cli.options import Flag, option, options_given, refuse_unused
from sidequest.cli.settings import (
    read_config,
    read_count,
    read_size,
    use_all_cores,
    use_compilation_cache,
)
from sidequest.errors import InvalidRequest, SidequestError
from sidequest.runs.spec import Checkpointing, RunSpec, run_folder
from sidequest.switching.variants import parse

Read = TypeVar("Read")

RUNS = Path("runs")
DEFAULT_FRAMES = {"small": "1M", "paper": "2B"}


def train(
    variant: Annotated[Positional[tuple[str, ...]], option("[VARIANT …]")] = (),
    /,
    game: Annotated[str | None, option("GAME")] = None,
    seeds: Annotated[int | None, option("NUMBER", 1)] = None,
    seed: Annotated[int | None, option("NUMBER", 0)] = None,
    frames: Annotated[str | None, option("FRAMES")] = None,
    preset: Annotated[Literal["small", "paper"] | None, option()] = None,
    set: Annotated[UseAppendAction[tuple[str, ...]], option("NAME=VALUE")] = (),
    emulators: Annotated[int | None, option("NUMBER")] = None,
    replay_memory: Annotated[str | None, option("SIZE")] = None,
    resume: Annotated[tuple[Path, ...], option("RUN …")] = (),
    from_: Annotated[Path | None, option("RUN", name="from")] = None,
    fresh: Flag = False,
    checkpoint_every: Annotated[str | None, option("FRAMES")] = None,
    checkpoint_replay: Annotated[Literal["yes", "no"] | None, option(None, "yes")] = None,
    out: Annotated[Path | None, option("FOLDER", RUNS)] = None,
    quiet: Flag = False,
    tensorboard: Flag = False,
) -> None:
    """Trains one agent for each variant and seed.

    On JAX-native games all of them run side by side, on Atari one after the other.

    Args:
        variant: One variant or more, such as "XU-intra(10,informed,p*,X)".
        game: A game by name, such as minatar:breakout; `sidequest games` lists them.
        seeds: How many seeds of each variant.
        seed: The first of these seeds.
        frames: Environment frames of each run, such as 500k or 2M; by default 1M with the
            preset small, and 2B with paper.
        preset: Settings: small, the default on JAX-native games, or paper, on Atari.
        set: Changes one setting, as in --set replay.ratio=1.0; may be given again.
        emulators: Atari: how many side by side; the paper has 120.
        replay_memory: Atari: for the frames in replay, such as 40GB; by default what the
            device has left beside the agent, at most what --set replay.capacity needs.
        resume: Folders of runs that were cut off; each goes on where its newest good
            checkpoint was made. Everything else is known from there.
        from_: Folder of a run that is to be run again, from its beginning, in --out.
        fresh: Sets folders that hold a run aside, and starts from the beginning.
        checkpoint_every: Frames between two checkpoints, such as 2M; by default a tenth of
            the run, and 100M at most.
        checkpoint_replay: Atari: whether checkpoints hold replay; without it, replay is
            filled anew before learning goes on.
        out: Folder that gets a folder for each run.
        quiet: Lines instead of a moving panel.
        tensorboard: Write TensorBoard files too, from the same records.
    """
    given: dict[str, Any] = dict(
        game=game,
        seeds=seeds,
        seed=seed,
        frames=frames,
        preset=preset,
        set=set,
        emulators=emulators,
        replay_memory=replay_memory,
    )
    every = None
    if checkpoint_every is not None:
        every = read_count(checkpoint_every, "--checkpoint-every")
    replay = None if checkpoint_replay is None else checkpoint_replay == "yes"
    if resume:
        refuse_more(variant, {**given, "from": from_}, "--resume")
        launches = launches_to_resume(resume)
        refuse_more((), {"out": out}, "--resume")
    elif from_:
        refuse_more(variant, given, "--from")
        launches = [again(from_, out or RUNS)]
    else:
        launches = [read_launch(variant, out or RUNS, **given)]
    for run in (run for one in launches for run in one.runs if not is_atari(run.game)):
        why = f"checkpoints of {run.game} always hold replay"
        refuse_unused({"checkpoint_replay": checkpoint_replay}, why)
    if tensorboard and not find_spec("tensorboardX"):
        raise InvalidRequest(
            "--tensorboard needs an extra: pip install 'sidequest[tensorboard]'"
        )
    launches = [one.checkpointing(every, replay) for one in launches]
    for one in launches:
        fresh_folders(one, fresh, may_go_on=bool(resume))
    run_all(launches, quiet, tensorboard)


def refuse_more(variant: tuple[str, ...], given: dict[str, Any], why: str) -> None:
    """With a folder to go by, nothing else can be said about a run."""
    more = [*variant, *options_given(given)]
    if more:
        raise InvalidRequest(
            f"{why} knows the run from its folder; leave out {' '.join(more)}"
        )


def is_atari(game: str) -> bool:
    """Bare names are Atari's; games of other suites are compiled."""
    return ":" not in game


def read_launch(
    variant: tuple[str, ...],
    out: Path,
    *,
    game: str | None,
    seeds: int | None,
    seed: int | None,
    frames: str | None,
    preset: str | None,
    set: tuple[str, ...],
    emulators: int | None,
    replay_memory: str | None,
) -> Launch:
    """From what was typed to runs; everything is checked before anything is made, and all
    faults are told at once."""
    from sidequest.environments import registry

    faults: list[str] = []
    variants = [attempt(faults, parse, name) for name in variant]
    variants = [one for one in variants if one is not None]
    if len(frozenset(variants)) < len(variants):
        faults.append(f"a variant is named twice: {', '.join(map(str, variants))}")
    if not variant:
        faults.append('name a variant, such as "XU-intra(10,informed,p*,X)"')
    if game is None:
        faults.append("name a game, as in --game minatar:breakout; `sidequest games` lists")
    else:
        attempt(faults, registry.check, game)
    seeds, seed = 1 if seeds is None else seeds, seed or 0
    if not 1 <= seeds <= 10_000 or not 0 <= seed < 2**31:
        faults.append(
            f"seeds is {seeds} and seed {seed}; 1 to 10000 seeds, from 0 or more on"
        )
    game = game or ""
    if not is_atari(game):
        only_there = {"emulators": emulators, "replay_memory": replay_memory}
        attempt(faults, refuse_unused, only_there, f"{game} has no emulators")
    preset = preset or ("paper" if is_atari(game) else "small")
    settings = set
    if emulators is not None:
        if any(setting.startswith("acting.streams=") for setting in set):
            faults.append("--emulators is the setting acting.streams; give one of them")
        settings = (*settings, f"acting.streams={emulators}")
    small_frames = is_atari(game) and preset == "small"
    name = "small-frames" if small_frames else preset
    config = attempt(faults, read_config, name, settings)
    count = attempt(faults, read_count, frames or DEFAULT_FRAMES[preset], "--frames")
    memory = None
    if replay_memory:
        memory = attempt(faults, read_size, replay_memory, "--replay-memory")
    if faults or config is None or count is None:
        raise InvalidRequest("\n".join(faults))
    runs = [
        RunSpec(one, game, number, run_folder(out, one, game, number), config, count)
        for one in variants
        for number in range(seed, seed + seeds)
    ]
    return Launch(runs, memory, Checkpointing())


def attempt(faults: list[str], read: Callable[..., Read], *arguments: Any) -> Read | None:
    """What can be read; if it cannot, why, and the rest is read all the same."""
    try:
        return read(*arguments)
    except SidequestError as error:
        faults.append(str(error))
        return None


def run_all(launches: list[Launch], quiet: bool, tensorboard: bool) -> None:
    """Trains, and prints the folders."""
    use_all_cores()
    use_compilation_cache()

    from sidequest.runs import trainer
    from sidequest.runs.display import Log, Panel

    for one in launches:
        moving = sys.stderr.isatty() and not quiet
        with Panel() if moving else Log() as display:
            trainer.run(one.runs, display, memory=one.memory, checkpoints=one.checkpoints)
        for run in one.runs:
            if tensorboard:
                from sidequest.runs.tensorboard import export

                export(run.folder)
            with contextlib.suppress(BrokenPipeError):  # other launches may follow
                print(run.folder, flush=True)
