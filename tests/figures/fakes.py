"""Tiny studies for claims: every number that a rule looks at is said here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sidequest.errors import VariantError
from sidequest.figures.reading import Records, read_records
from sidequest.records import Recorder, write_json
from sidequest.switching.variants import parse

FRAMES = 1_000
EPISODES = 20
LENGTH = 10_000


class Fake(NamedTuple):
    """One cell: a variant on a game, one run for each of its scores."""

    variant: str
    game: str = "a"
    scores: Sequence[float] = (1.0, 2.0)
    """Final performance, seed by seed."""
    p: tuple[float, float] = (0.1, 0.1)
    """p_X of the first and of the last episode; on a line between."""
    wobble: float = 0.0
    """Added to p_X in every other episode, taken away in the others."""
    ratio: float = 1.0
    """Realised over target rate."""
    arms: Mapping[int, float] | Mapping[float, float] = {}
    """Final probabilities of the bandit over exploit durations; uniform at first."""
    modes: str = ""
    """Of each of ten recorded episodes."""
    settings: Mapping[str, Any] = {}
    frames: int = FRAMES
    finished: bool = True


def make_records(folder: Path, *fakes: Fake) -> Records:
    """Writes the study and reads it back."""
    runs = []
    for number, fake in enumerate(fakes):
        for seed, score in enumerate(fake.scores):
            place = f"cell-{number}/seed-{seed}"
            write_run(folder / place, fake, seed, score)
            one = {"variant": fake.variant, "game": fake.game, "seed": seed}
            one |= {"frames": fake.frames, "folder": place, "settings": dict(fake.settings)}
            runs.append({"id": place, **one})
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "study.json", {"name": "fake", "title": "Fake", "runs": runs})
    return read_records(folder)


def write_run(folder: Path, fake: Fake, seed: int, score: float) -> None:
    run = {"variant": fake.variant, "game": fake.game, "seed": seed, "frames": fake.frames}
    recorder = Recorder(folder, run)
    recorder.write(
        "evaluations",
        [
            {"frames": k * fake.frames // 10, "return": score, "length": 1}
            for k in range(1, 11)
        ],
    )
    recorder.write("episodes", episode_rows(fake))
    for frames, late in ((fake.frames // 10, False), (fake.frames, True)):
        for arm, probability in fake.arms.items():
            even = 1 / len(fake.arms)
            row = {"frames": frames, "bandit": "exploit", "arm": arm}
            recorder.write(
                "bandits", [row | {"probability": probability if late else even}]
            )
    recorder.write(
        "traces",
        [
            {
                "frames": k * fake.frames // 10,
                "length": len(fake.modes),
                "modes": fake.modes,
                "signal": signal_of(fake),
                "reward": [0.0] * len(fake.modes),
            }
            for k in range(1, 11)
            if fake.modes
        ],
    )
    recorder.finish() if fake.finished else recorder.close()


def signal_of(fake: Fake) -> list[float | None]:
    """Of an informed trigger: none at the first step, then a tenth more at each."""
    if "informed" not in fake.variant:
        return [None] * len(fake.modes)
    return [step / 10 or None for step in range(len(fake.modes))]


def episode_rows(fake: Fake) -> list[dict]:
    early, late = fake.p
    target = target_of(fake.variant)
    return [
        {
            "frames": k * fake.frames // EPISODES,
            "return": 0.0,
            "length": LENGTH,
            "p_X": early
            + (late - early) * (k - 1) / (EPISODES - 1)
            + fake.wobble * (-1) ** k,
            "med_X": 10.0,
            "rmed_X": 10.0 / LENGTH,
            "periods": 1,
            "realised_rate": None if target is None else fake.ratio * target,
            "target_rate": target,
        }
        for k in range(1, EPISODES + 1)
    ]


def target_of(name: str) -> float | None:
    try:
        exploit = parse(name).exploit
    except VariantError:
        return None
    return exploit.value if exploit and exploit.unit == "rate" else None
