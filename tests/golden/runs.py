"""Three small runs, by the command line alone: `python -m tests.golden.runs FOLDER`.

They use nothing but the command and the protocol of environments. Run on one core: results
are bit-equal for the same number only.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

SMALL = {
    "network.pre_units": 16,
    "network.core_units": 16,
    "network.post_units": 16,
    "network.head_units": 16,
    "acting.environments": 4,
    "acting.sync_interval": 8,
    "replay.capacity": 1_600,
    "replay.block_length": 8,
    "replay.prefix": 4,
    "replay.ratio": 2.0,
    "replay.warm_up": 0,
    "learning.n_step": 5,
    "learning.watkins": "none",
    "learning.trace_tolerance": 0.0,
    "learning.batch_size": 8,
    "learning.discount": 0.9,
    "learning.target_interval": 5,
    "novelty.units": 16,
    "switching.window": 16,
    "evaluation.interval": 2_048,
    "evaluation.episodes": 4,
    "evaluation.traces": 20,
}
NOVELTY = {
    "novelty.episodic": True,
    "novelty.centred": False,
    "novelty.weight": 1.0,
    "novelty.epsilon": 0.0,
    "learning.priorities": "all",
}
FRAMES = {
    "network.channels": "(4,4)",
    "network.kernels": "(7,5)",
    "network.strides": "(4,4)",
    "network.scan_unroll": 1,
    "acting.environments": 6,
    "acting.sync_interval": 16,
    "replay.capacity": 480,
    "replay.ratio": 1.0,
    "replay.warm_up": 144,
    "learning.batch_size": 4,
    "evaluation.traces": 5,
}


class GoldenRun(NamedTuple):
    """One run: its name, and what is typed after `sidequest train`."""

    name: str
    words: list[str]


def _run(name: str, variant: str, game: str, frames: int, settings: dict) -> GoldenRun:
    words = [variant, "--game", game, "--frames", str(frames), "--quiet", "--seed", "3"]
    for setting, value in settings.items():
        words += ["--set", f"{setting}={value}"]
    return GoldenRun(name, words)


RUNS = [
    _run("informed", "XU-intra(*,informed,p*,X)", "golden:offers", 4_096, SMALL),
    _run("intrinsic", "XI-intra(*,blind,n*,X)", "golden:offers", 4_096, SMALL | NOVELTY),
    _run("hosted", "XU-intra(10,informed,p*,X)", "golden:drawn", 2_688, SMALL | FRAMES),
]


def offers():
    """A compiled game: take one of two offers; episodes end at random, or at 12 steps."""
    import jax
    import jax.numpy as jnp

    from sidequest.environments.base import EnvironmentSpec, auto_reset

    spec = EnvironmentSpec("offers", (2,), np.dtype(np.float32), 2, max_steps=12)

    def reset(key):
        shown = jax.random.normal(key, (2,))
        return (shown, jnp.int32(0)), shown

    def step(key, state, action):
        end_key, offer_key = jax.random.split(key)
        shown, count = state
        following = jax.random.normal(offer_key, (2,))
        over = jax.random.bernoulli(end_key, 0.25)
        return (following, count + 1), following, shown[action], over, count == 11

    return auto_reset(reset, step, spec)


class Drawn:
    """A group without emulators: environment i paints i above and the step below; a reward
    comes with the action that equals the step modulo 3."""

    def __init__(self, spec, environments):
        self.spec = spec
        self.numbers = np.array(environments)
        self.lengths = 5 + self.numbers
        self.step = 0
        self.actions = np.zeros(len(self.numbers), np.int32)

    def send(self, actions):
        self.actions = np.array(actions)
        self.step += 1

    def recv(self):
        from sidequest.types import Timestep

        frames = np.zeros((len(self.numbers), *self.spec.observation_shape), np.uint8)
        frames[:, :7] = self.numbers.reshape(-1, 1, 1, 1)
        frames[:, 7:] = self.step % 256
        over = (self.step > 0) & (self.step % self.lengths == 0)
        terminated = over & (self.numbers == 0)
        reward = ((self.actions == self.step % 3) & (self.step > 0)).astype(np.float32)
        is_first = over | (self.step == 0)
        return Timestep(frames, reward, terminated, over & ~terminated, is_first)

    def close(self):
        pass


def drawn():
    """A hosted game of such groups."""
    from sidequest.environments.base import EnvironmentSpec, HostedGame

    spec = EnvironmentSpec(
        "drawn", (14, 16, 3), np.dtype(np.uint8), 3, maximum=255.0, frames_per_step=4
    )

    def build(groups, environments, seed, threads=1, progress=lambda built, of: None):
        progress(groups * environments, groups * environments)
        starts = range(0, groups * environments, environments)
        return [Drawn(spec, range(first, first + environments)) for first in starts]

    return HostedGame(build, spec)


def main(folder: Path) -> None:
    """Makes all runs below a folder."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from sidequest.cli import main as command
    from sidequest.environments import registry

    registry.register("golden:offers", offers)
    registry.register("golden:drawn", drawn)
    for run in RUNS:
        # The default at c3a02f5, where both were one setting, that was on.
        values = ["--set", "learning.normalise_values=true"]
        hosted = ["--preset", "paper", *values] if run.name == "hosted" else []
        try:
            command(["train", *run.words, *hosted, "--out", str(folder / run.name)])
        except SystemExit as stopped:
            if stopped.code:
                raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
