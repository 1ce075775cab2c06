"""Small runs that can be stopped at will, and what two runs must have in common."""

import os
import signal
import threading
from pathlib import Path

from sidequest.config import SMALL, change, flatten
from sidequest.environments import registry
from sidequest.records import TABLES
from sidequest.runs import checkpoint, trainer
from sidequest.runs.spec import Checkpointing, RunSpec
from sidequest.switching.variants import parse
from tests.runs.tiny import TINY, bargains

VARIANT = "XU-intra(*,informed,p*,X)"
GAME = "tests:bargains"
CHUNK = 256 * 4
CHUNKS = 6
CONFIG = change(
    TINY,
    **{
        "evaluation.interval": 2 * CHUNK,
        "evaluation.episodes": 4,
        "evaluation.traces": 20,
        "replay.capacity": 4 * 8 * 200,
    },
)
EVERY_CHUNK = Checkpointing(every=CHUNK)

OPTIONS = [
    # The same for the command: its programs are those of the tests in this process.
    *(VARIANT, "--game", GAME, "--frames", str(24 * CHUNK), "--quiet"),
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
        assert self._heard.wait(30)


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
    registry._registered[GAME] = game or bargains
    runs = [one._replace(config=config, frames=chunks * CHUNK) for one in runs]
    trainer.run(runs, watcher, checkpoints=checkpoints)
    return watcher


def results(folder: Path) -> dict[str, bytes]:
    """Everything that a finished run has computed, as bytes."""
    names = [f"{table}.parquet" for table in TABLES] + [checkpoint.PARAMETERS]
    # A variant without bandits has no table of them.
    paths = [folder / name for name in names if (folder / name).exists()]
    return {path.name: path.read_bytes() for path in paths}
