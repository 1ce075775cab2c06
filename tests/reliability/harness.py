"""Small runs that can be stopped at will, and what two runs must have in common."""

import os
import signal
import threading
from contextlib import contextmanager
from functools import partial, partialmethod
from pathlib import Path
from unittest.mock import patch

from sidequest.config import SMALL, change, flatten
from sidequest.environments import registry
from sidequest.records import TABLES
from sidequest.runs import checkpoint, trainer
from sidequest.runs.ondevice import Population
from sidequest.runs.spec import Checkpointing, RunSpec
from sidequest.switching.variants import parse
from tests.runs.tiny import TINY, bargains

VARIANT = "XU-intra(*,informed,p*,X)"
GAME = "tests:bargains"
CHUNK = 256 * 4
CHUNKS = 6
PROCESS_CHUNKS = 24
CONFIG = change(
    TINY,
    **{
        "evaluation.interval": 2 * CHUNK,
        "evaluation.episodes": 4,
        "evaluation.traces": 20,
        "replay.capacity": 4 * 8 * 200,
    },
)
EVERY_CHUNK, EVERY_TENTH = Checkpointing(every=CHUNK), Checkpointing()

OPTIONS = [
    # The same for the command: its programs are those of the tests in this process.
    *(VARIANT, "--game", GAME, "--frames", str(PROCESS_CHUNKS * CHUNK), "--quiet"),
    *("--checkpoint-every", str(4 * CHUNK)),
]
for setting, value in flatten(CONFIG).items():
    if value != flatten(SMALL)[setting]:
        OPTIONS += ["--set", f"{setting}={value}"]


class Watcher:
    """A display that interrupts the run after so many chunks, if asked to."""

    def __init__(self, stop_after: int | None = None):
        self.said: list[str] = []
        self.shown: list = []
        self.stop_after = stop_after
        self._heard = threading.Event()

    def say(self, text):
        self.said.append(text)
        if text.startswith("SIGTERM"):
            self._heard.set()

    def count(self, text, done, of):
        self.said.append(text)

    def show(self, progress):
        self.shown.append(progress)
        if len(self.shown) == self.stop_after:
            self.interrupt()

    def interrupt(self):
        """Sends a signal to this process, and waits until its listener has heard it."""
        os.kill(os.getpid(), signal.SIGTERM)
        assert self._heard.wait(600)


def specs(folder: Path, *seeds: int, variant: str = VARIANT) -> list[RunSpec]:
    """Runs that `run` gives their config and number of frames."""
    return [
        RunSpec(parse(variant), GAME, seed, folder / f"seed-{seed}", CONFIG, CHUNKS * CHUNK)
        for seed in seeds
    ]


def run(
    runs, watcher=None, *, config=CONFIG, chunks=CHUNKS, checkpoints=EVERY_CHUNK, game=None
):
    """Trains for some chunks; returns what was said."""
    watcher = watcher or Watcher()
    runs = [one._replace(config=config, frames=chunks * CHUNK) for one in runs]
    train(runs, watcher, checkpoints, game)
    return watcher


def train(runs, watcher, checkpoints=EVERY_TENTH, game=None):
    """Trains as `trainer.run` does, but compiles each program once for all tests."""
    with compiling_once(runs[0].config, game):
        trainer.run([one._replace(checkpoints=checkpoints) for one in runs], watcher)


@contextmanager
def compiling_once(config, game=None):
    """Lets all runs that train meanwhile have this config and game."""
    registry._registered[GAME] = game or bargains
    compile_once = partial(_compile_once, (repr(config), game), Population._compile)
    with patch.object(Population, "_compile", partialmethod(compile_once)):
        yield


_programs: dict[tuple, tuple] = {}


def _compile_once(key, compile, population, episodes):
    """Compiles for all tests with the same game and config. A program takes only arrays of
    the types that it was compiled for, so it still notices a state that is restored badly.
    """
    key = *key, population._agent.heads, population._mesh
    if key not in _programs:
        compile(population, episodes)
        _programs[key] = population._chunk, population._evaluate_batch
    population._chunk, population._evaluate_batch = _programs[key]


def results(folder: Path) -> dict[str, bytes]:
    """Everything that a finished run has computed, as bytes."""
    names = [f"{table}.parquet" for table in TABLES] + [checkpoint.PARAMETERS]
    # A variant without bandits has no table of them.
    paths = [folder / name for name in names if (folder / name).exists()]
    return {path.name: path.read_bytes() for path in paths}
