"""`sidequest train`: trains agents and leaves records of how they explored and scored."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sidequest.cli import Refusal
from sidequest.cli.settings import (
    read_config,
    read_count,
    read_size,
    use_all_cores,
    use_compilation_cache,
)
from sidequest.switching.variants import parse

DEFAULT_FRAMES = {"small": "1M", "paper": "2B"}
Off = tyro.conf.FlagCreatePairsOff


def train(
    variant: tyro.conf.Positional[tuple[str, ...]],
    /,
    game: str,
    seeds: int = 1,
    seed: int = 0,
    frames: str | None = None,
    preset: Literal["small", "paper"] | None = None,
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    emulators: int | None = None,
    replay_memory: str | None = None,
    out: Path = Path("runs"),
    quiet: Annotated[bool, Off] = False,
    tensorboard: Annotated[bool, Off] = False,
) -> None:
    """Trains one agent for each variant and seed; on JAX-native games all side by side.

    Args:
        variant: One variant or more, such as "XU-intra(10,informed,p*,X)".
        game: A game by name, such as minatar:breakout; `sidequest games` lists them.
        seeds: How many seeds of each variant, 1 or more.
        seed: The first of these seeds.
        frames: Environment frames of each run, such as 500k or 2M.
        preset: Settings: small for JAX-native games, paper for Atari.
        set: Changes one setting, as in --set replay.ratio=1.0; may be given again.
        emulators: Atari: how many side by side; the paper has 120.
        replay_memory: Atari: for the frames in replay, such as 40GB; by default 60% of the
            device's memory.
        out: Folder that gets a folder for each run.
        quiet: Lines instead of a moving bar.
        tensorboard: Write TensorBoard files too, from the same records.
    """
    from sidequest.environments import registry

    variants = [parse(name) for name in variant]
    registry.check(game)
    if not variants:
        raise Refusal('name a variant, such as "XU-intra(10,informed,p*,X)"')
    if not 1 <= seeds <= 10_000 or seed < 0:
        raise Refusal(f"seeds is {seeds} and seed {seed}; 1 or more seeds from 0 upwards")
    is_atari = ":" not in game
    preset = preset or ("paper" if is_atari else "small")
    settings = (*set, f"acting.streams={emulators}") if emulators is not None else set
    config = read_config(
        "small-frames" if is_atari and preset == "small" else preset, settings
    )
    budget = read_count(frames or DEFAULT_FRAMES[preset], "--frames")
    memory = None if replay_memory is None else read_size(replay_memory, "--replay-memory")
    use_all_cores()
    use_compilation_cache()

    from sidequest.runs.display import Bar, Log
    from sidequest.runs.launch import launch
    from sidequest.runs.spec import RunSpec, folder_name

    runs = [
        RunSpec(
            one,
            game,
            number,
            out / folder_name(one) / game.replace(":", "-") / f"seed-{number}",
        )
        for one in variants
        for number in range(seed, seed + seeds)
    ]
    with Log() if quiet or not sys.stderr.isatty() else Bar(budget) as display:
        launch(runs, config, budget, display, memory)
    for run in runs:
        if tensorboard:
            from sidequest.runs.tensorboard import export

            export(run.folder)
        print(run.folder)
