"""Small runs that can be stopped at will, and what two runs must have in common."""

from pathlib import Path

from sidequest.config import SMALL, change, flatten
from sidequest.records import TABLES
from sidequest.runs import checkpoint
from sidequest.runs.process import StopSignal
from sidequest.runs.spec import RunSpec, Saving
from sidequest.runs.train import train
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
EVERY_CHUNK = Saving(every=CHUNK)

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
        self.interrupts = StopSignal()

    def say(self, text):
        self.said.append(text)

    def count(self, text, done, of):
        self.said.append(text)

    def show(self, progress):
        self.shown.append(progress)
        if len(self.shown) == self.stop_after:
            self.interrupts.requested = "SIGTERM"


def specs(folder: Path, *seeds: int, variant: str = VARIANT) -> list[RunSpec]:
    return [RunSpec(parse(variant), GAME, seed, folder / f"seed-{seed}") for seed in seeds]


def run(runs, watcher=None, *, config=CONFIG, chunks=CHUNKS, saving=EVERY_CHUNK, game=None):
    """Trains for some chunks; returns what was said."""
    watcher = watcher or Watcher()
    environment = (game or bargains)()
    frames = chunks * CHUNK
    train(runs, environment, config, frames, watcher, saving, watcher.interrupts)
    return watcher


def results(folder: Path) -> dict[str, bytes]:
    """Everything that a finished run has computed, as bytes."""
    names = [f"{table}.parquet" for table in TABLES] + [checkpoint.PARAMETERS]
    # A variant without bandits has no table of them.
    paths = [folder / name for name in names if (folder / name).exists()]
    return {path.name: path.read_bytes() for path in paths}
