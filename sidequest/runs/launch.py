"""Starts runs of one game where they belong: in a compiled population, or on emulators."""

from collections.abc import Sequence

from sidequest.config import Config
from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs.spec import Display, RunSpec
from sidequest.runs.train import train
from sidequest.runs.train_hosted import train_hosted


def launch(
    runs: Sequence[RunSpec],
    config: Config,
    frames: int,
    display: Display,
    memory: int | None = None,
) -> None:
    """Side by side where the game is compiled; one after the other on emulators.

    Args:
        runs: Of one game; on a compiled one, of variants that need the same heads.
        memory: Bytes for the frames in replay, on emulators.
    """
    environment = registry.make(runs[0].game)
    if isinstance(environment, CompiledEnvironment):
        train(runs, environment, config, frames, display)
        return
    for run in runs:
        display.say(f"{run.variant}, seed {run.seed}")
        train_hosted(run, environment, config, frames, display, memory)
