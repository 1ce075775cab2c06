"""`sidequest train`: trains agents and leaves records of how they explored and scored."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sidequest.cli import Refusal
from sidequest.cli.settings import read_config, read_count, use_compilation_cache
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
    out: Path = Path("runs"),
    quiet: Annotated[bool, Off] = False,
    tensorboard: Annotated[bool, Off] = False,
) -> None:
    """Trains one agent for each variant and seed, all side by side in one program.

    Args:
        variant: One variant or more, such as "XU-intra(10,informed,p*,X)".
        game: A game by name, such as minatar:breakout; `sidequest games` lists them.
        seeds: How many seeds of each variant, 1 or more.
        seed: The first of these seeds.
        frames: Environment frames of each run, such as 500k or 2M.
        preset: Settings: small for JAX-native games, paper for Atari.
        set: Changes one setting, as in --set replay.ratio=1.0; may be given again.
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
    preset = preset or ("small" if ":" in game else "paper")
    config = read_config(preset, set)
    budget = read_count(frames or DEFAULT_FRAMES[preset], "--frames")
    use_compilation_cache()

    from sidequest.environments.base import CompiledEnvironment
    from sidequest.runs.display import Bar, Log
    from sidequest.runs.train import RunSpec, folder_name
    from sidequest.runs.train import train as train_population

    folders = [
        RunSpec(
            one,
            game,
            number,
            out / folder_name(one) / game.replace(":", "-") / f"seed-{number}",
        )
        for one in variants
        for number in range(seed, seed + seeds)
    ]
    environment = registry.make(game)
    if not isinstance(environment, CompiledEnvironment):
        raise Refusal(f"{game} runs on the host; training there is not ready yet")
    with Log() if quiet or not sys.stderr.isatty() else Bar(budget) as display:
        train_population(folders, environment, config, budget, display)
    for run in folders:
        if tensorboard:
            from sidequest.runs.tensorboard import export

            export(run.folder)
        print(run.folder)
