"""Trains a population on a JAX-native game, from the first round to finished records.

A run is one member: one variant, one game, one seed, one folder. Members that need the same
heads share one compiled program. Between chunks of rounds the host writes tables, evaluates
and shows progress.
"""

import dataclasses
from collections.abc import Sequence

import jax

from sidequest.config import Config, check
from sidequest.environments.base import CompiledEnvironment
from sidequest.runs import checkpoint
from sidequest.runs.assembly import assemble
from sidequest.runs.ondevice import Pace, pace_of
from sidequest.runs.population import Population
from sidequest.runs.records import Recorder, describe_machine, refuse_existing
from sidequest.runs.spec import Display, RunSpec


def train(
    runs: Sequence[RunSpec],
    environment: CompiledEnvironment,
    config: Config,
    frames: int,
    display: Display,
) -> None:
    """Trains all runs side by side for `frames` environment frames each."""
    check(config)
    for run in runs:  # all of them, before the first folder is made
        refuse_existing(run.folder)
    variants = [run.variant for run in runs]
    parts = assemble(config, environment.spec, variants)
    pace = pace_of(config)
    recorders = [
        Recorder(run.folder, describe_run(run, config, frames, pace)) for run in runs
    ]
    population = Population(runs, environment, config, parts, pace, frames)
    display.say(f"compiling one program for {len(runs)} runs …")
    seconds = population.compile()
    display.say(f"compiled in {seconds:.1f} s")
    while population.frames < frames:
        progress = population.advance(recorders)
        display.show(progress)
    for run, recorder, member in zip(runs, recorders, range(len(runs)), strict=True):
        network = jax.tree.map(lambda leaf, i=member: leaf[i], population.network())
        checkpoint.save(run.folder / checkpoint.PARAMETERS, network)
        recorder.finish(seconds=population.seconds, frames_done=population.frames)


def describe_run(run: RunSpec, config: Config, frames: int, pace: Pace) -> dict:
    return {
        "variant": str(run.variant),
        "game": run.game,
        "seed": run.seed,
        "frames": frames,
        "config": dataclasses.asdict(config),
        "pace": pace._asdict(),
        **describe_machine(),
    }
