"""`sidequest train`: trains agents and leaves records of how they explored and scored."""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from tyro.conf import Positional, UseAppendAction

from sidequest.cli.options import (
    Flag,
    check_range,
    check_run,
    option,
    read_config,
    read_count,
    read_size,
    refuse,
    refuse_empty,
    use_all_cores,
    use_compilation_cache,
)
from sidequest.errors import (
    Interrupted,
    InvalidRequest,
    SidequestError,
    raise_together,
    release_frames,
    resume_command,
    unknown,
)
from sidequest.records import RUN_FILE, find_runs, refuse_existing
from sidequest.runs.process import LOCK, lock_folders
from sidequest.runs.spec import RunSpec, is_finished, read_spec, run_folder
from sidequest.switching.variants import parse

if TYPE_CHECKING:
    from sidequest.runs.display import RunProgress

_Read = TypeVar("_Read")
_RUNS, _PRESETS = Path("runs"), ("small", "paper")


def train(
    variant: Annotated[Positional[tuple[str, ...]], option("[VARIANT …]")] = (),
    /,
    game: Annotated[str | None, option("GAME")] = None,
    seeds: Annotated[int | None, option("NUMBER", 1)] = None,
    seed: Annotated[int | None, option("NUMBER", 0)] = None,
    frames: Annotated[str | None, option("FRAMES")] = None,
    preset: Annotated[str | None, option("{small,paper}")] = None,
    set: Annotated[UseAppendAction[tuple[str, ...]], option("NAME=VALUE")] = (),
    emulators: Annotated[int | None, option("NUMBER")] = None,
    replay_memory: Annotated[str | None, option("SIZE")] = None,
    resume: Annotated[tuple[Path, ...] | None, option("RUN …")] = None,
    from_: Annotated[Path | None, option("RUN", name="from")] = None,
    fresh: Flag = False,
    checkpoint_every: Annotated[str | None, option("FRAMES")] = None,
    checkpoint_replay: Annotated[Literal["yes", "no"] | None, option(None, "yes")] = None,
    out: Annotated[Path | None, option("FOLDER", _RUNS)] = None,
    quiet: Flag = False,
    tensorboard: Flag = False,
) -> None:
    """Trains one agent for each variant and seed.

    They train side by side on JAX-native games, one after the other on others.

    For example:
      sidequest train "XU-intra(10,informed,p*,X)" --game minatar:breakout --seeds 3
      sidequest train --resume runs/XU-step-level-0_01/minatar-breakout/seed-0

    Args:
        variant: One or more variants, such as "XU-intra(10,informed,p*,X)".
        game: Name of a game, such as minatar:breakout; `sidequest games` lists them. For
            other environments: gymnasium:ID, or module:function for a function that
            returns a Gymnasium environment or one written in JAX.
        seeds: How many seeds of each variant.
        seed: The first of these seeds.
        frames: Environment frames of each run, such as 500k or 2M, rounded up to a whole
            chunk of training: up to 256 steps of each environment. By default 1M with the
            preset small, and 2B with paper.
        preset: Settings to start from. By default paper on Atari, and small elsewhere.
        set: Change one setting, as in --set replay.ratio=1.0. You can repeat this option.
        emulators: Atari and Gymnasium: how many run side by side; the paper has 120.
        replay_memory: Atari: memory for the frames in replay, such as 40GB. By default what
            the agent leaves free on the device, at most what --set replay.capacity needs.
        resume: Folders of interrupted runs, or folders above them. Each unfinished run
            resumes from its newest good checkpoint, with its own options.
        from_: Folder of a run to repeat from the beginning; the new run goes to --out.
        fresh: Rename folders that already have a run, and start from the beginning.
        checkpoint_every: Frames between two checkpoints, such as 2M. By default a tenth of
            the run, at most 100M.
        checkpoint_replay: Atari and Gymnasium: whether checkpoints include replay. Without
            it, a resumed run fills replay again before it learns.
        out: Folder in which each run gets its own folder.
        quiet: Print lines instead of a moving panel.
        tensorboard: Also write TensorBoard files, from the same records.
    """
    refuse_empty(resume=resume)
    use_all_cores()  # before a game of the user's starts JAX
    use_compilation_cache()
    new_runs: dict[str, Any] = dict(
        game=game,
        seeds=seeds,
        seed=seed,
        frames=frames,
        preset=preset,
        set=set,
        emulators=emulators,
        replay_memory=replay_memory,
    )
    known = "knows the run from its folder"
    if resume:
        refuse(f"--resume {known}", *variant, **new_runs, from_=from_, out=out)
        runs = runs_to_resume(resume)
        if not runs:  # what is queued again may well be done
            print("nothing is left to resume: all runs there have finished")
            return
    elif from_:
        refuse(f"--from {known}", *variant, **new_runs)
        runs = [run_to_repeat(from_, out or _RUNS)]
    else:
        runs = parse_request(variant, out or _RUNS, **new_runs)
    runs = [_with_checkpoints(run, checkpoint_every, checkpoint_replay) for run in runs]
    if tensorboard and not find_spec("tensorboardX"):
        raise InvalidRequest(
            '--tensorboard needs an extra: in the clone, pip install ".[train,tensorboard]"'
        )
    folders = [run.folder for run in runs]
    if fresh:
        for folder in folders:
            if (folder / RUN_FILE).exists():
                set_aside(folder)
    elif not resume:
        refuse_existing(*folders)
    _train_all(runs, quiet, tensorboard)


def parse_request(
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
) -> list[RunSpec]:
    """Turns options into runs; checks everything first, and reports all faults at once."""
    from sidequest.config import evaluate_often
    from sidequest.environments import registry

    faults: list[str] = []

    def attempt(
        read: Callable[..., _Read], *arguments: Any, **options: Any
    ) -> _Read | None:
        try:
            return read(*arguments, **options)
        except SidequestError as error:
            faults.append(str(error))
            return None

    variants = [one for name in variant if (one := attempt(parse, name)) is not None]
    if len(frozenset(variants)) < len(variants):
        faults.append(f"a variant is named twice: {', '.join(map(str, variants))}")
    if not variant:
        faults.append('name a variant, such as "XU-intra(10,informed,p*,X)"')
    kind = None
    if game is None:
        faults.append("name a game, as in --game minatar:breakout; `sidequest games` lists")
    else:
        kind = attempt(registry.kind, game)
    seeds, seed = 1 if seeds is None else seeds, seed or 0
    attempt(check_range, "seeds", seeds, 1, 10_000)
    attempt(check_range, "seed", seed, 0)
    if kind == "compiled":
        only_hosted = dict(emulators=emulators, replay_memory=replay_memory)
        attempt(refuse, f"{game} has no emulators", **only_hosted)
    preset = preset or ("paper" if registry.is_atari(game or "") else "small")
    if preset not in _PRESETS:
        faults.append(unknown("preset", preset, _PRESETS))
        preset = "small"
    if emulators is not None:
        if any(setting.startswith("acting.environments=") for setting in set):
            faults.append("--emulators is the setting acting.environments; give one")
        set = (*set, f"acting.environments={emulators}")
    if game is not None and kind is not None:
        preset = attempt(registry.fitting_preset, preset, game) or preset
    config = attempt(read_config, preset, set)
    if frames is None:
        frames = "2B" if preset == "paper" else "1M"
    count = attempt(read_count, frames, "--frames")
    chosen = any(setting.startswith("evaluation.interval=") for setting in set)
    if config and count and not chosen:
        config = evaluate_often(config, count)
    memory = None
    if replay_memory is not None:
        memory = attempt(read_size, replay_memory, "--replay-memory")
    if faults or game is None or config is None or count is None:
        raise InvalidRequest("\n".join(faults))
    return [
        RunSpec(
            variant=one,
            game=game,
            seed=number,
            folder=run_folder(out, one, game, number),
            config=config,
            frames=count,
            memory=memory,
        )
        for one in variants
        for number in range(seed, seed + seeds)
    ]


def runs_to_resume(folders: Sequence[Path]) -> list[RunSpec]:
    """Returns the unfinished runs in folders or below them, as run.json describes them."""
    runs = [run for folder in folders for run in _runs_in(folder)]
    if len({run.resolve() for run in runs}) < len(runs):
        raise InvalidRequest("a folder is named twice")
    unfinished = [run for run in runs if not check_run(run).get("finished")]
    return [read_spec(run) for run in unfinished]


def _runs_in(folder: Path) -> list[Path]:
    """Returns the folder itself if it holds a run, else those below it that do."""
    if (folder / RUN_FILE).exists():
        return [folder]
    return find_runs(folder) or [folder]


def run_to_repeat(folder: Path, out: Path) -> RunSpec:
    """Returns the same run from its beginning, in a folder below `out`."""
    run = read_spec(folder)
    place = run_folder(out, run.variant, run.game, run.seed)
    if place.resolve() == folder.resolve():
        raise InvalidRequest(
            f"{folder} is the run itself; choose another folder with --out"
        )
    return run._replace(folder=place)


def _with_checkpoints(run: RunSpec, every: str | None, replay: str | None) -> RunSpec:
    """Replaces what was known about checkpoints by what was typed."""
    from sidequest.environments import registry

    if registry.kind(run.game) == "compiled":
        refuse(f"checkpoints of {run.game} always hold replay", checkpoint_replay=replay)
    checkpoints = run.checkpoints
    if every is not None:
        checkpoints = checkpoints._replace(every=read_count(every, "--checkpoint-every"))
    if replay is not None:
        checkpoints = checkpoints._replace(replay=replay == "yes")
    return run._replace(checkpoints=checkpoints)


def set_aside(folder: Path) -> Path:
    """Renames a run's folder to the next free name beside it."""
    names = (folder.with_name(f"{folder.name}.old-{n}") for n in range(1, 10_000))
    aside = next(name for name in names if not name.exists())
    with lock_folders([folder]):
        folder.rename(aside)
        (aside / LOCK).unlink()
    return aside


def group_by_kind(runs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Returns groups of runs that differ in variant, seed and folder alone."""
    groups: dict[tuple, list[RunSpec]] = {}
    for run in runs:
        kind = (run.game, run.config, run.frames, run.memory, run.checkpoints)
        groups.setdefault(kind, []).append(run)
    return list(groups.values())


def _train_all(runs: list[RunSpec], quiet: bool, tensorboard: bool) -> None:
    """Trains, runs of the same kind together; prints the folders, and on standard error
    scores and what to type next."""
    from sidequest.runs import trainer
    from sidequest.runs.display import make_display

    failures: list[SidequestError] = []
    groups = group_by_kind(runs)
    for group in groups:
        finished = group
        with make_display(quiet, len(group)) as display:
            try:
                trainer.run(group, display)
            except Interrupted as stop:
                left = [run for run in runs if not is_finished(run)]
                if others := [run.folder for run in left if run not in group]:
                    said = f"{stop}; the others: {resume_command(others)}"
                    raise Interrupted(said) from None
                if left:
                    raise
            except SidequestError as failure:  # the others do not need these
                release_frames(failure)
                failures.append(failure)
                finished = [run for run in group if is_finished(run)]
                if len(groups) > 1 and not failure.said:
                    display.say(str(failure))
        if display.rows and finished:
            display.say("\n".join(["", *display.table(), ""]))
        for run in finished:
            if tensorboard:
                from sidequest.runs.tables import export_tensorboard

                export_tensorboard(run.folder)
            with contextlib.suppress(OSError):  # other runs may follow
                print(run.folder, flush=True)
        if display.rows and finished == group:
            display.say(_next_commands(group, display.ranked()[0]))
    raise_together(failures)


def _next_commands(runs: Sequence[RunSpec], best: "RunProgress") -> str:
    """Returns commands that show more of these runs, with the best as their example."""
    names = {(str(run.variant), run.seed): run.folder for run in runs}
    folder = shlex.quote(str(names[best.variant, best.seed]))
    folders = list(names.values())
    if any(one.is_absolute() for one in folders):  # mixed, they have no common path
        folders = [one.absolute() for one in folders]
    parent = shlex.quote(os.path.commonpath(folders) or ".")
    commands = {
        f"sidequest evaluate {folder}": "scores of more greedy episodes",
        f"sidequest watch {folder}": "a film of an episode",
        f"sidequest figures {parent}": "curves, and a report",
    }
    lines = [f"  {command}\n      {text}" for command, text in commands.items()]
    return "\n".join(["", "Next:", *lines])
