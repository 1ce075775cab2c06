"""Tiny studies for claims: every number that a rule looks at is said here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars

from sidequest.errors import VariantError
from sidequest.figures.data import Records, read_records, select_tables
from sidequest.figures.data import make_records as make_records_of
from sidequest.records import Recorder, write_json
from sidequest.switching.variants import parse

FRAMES = 1_000
EPISODES = 20
LENGTH = 10_000


class Fake(NamedTuple):
    """One cell: a variant on a game, one run for each of its scores."""

    variant: str
    game: str = "a"
    scores: Sequence[float] = (1.0, 2.0, 3.0)
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


def make_records(folder: Path, *fakes: Fake, on_disk: bool = False) -> Records:
    """Makes the records of a study in memory; only recorded episodes are files.

    If `on_disk`, the study is written and read back.
    """
    found, planned = [], []
    for number, fake in enumerate(fakes):
        for seed, score in enumerate(fake.scores):
            place = f"cell-{number}/seed-{seed}"
            run = {"variant": fake.variant, "game": fake.game, "seed": seed}
            run["frames"] = fake.frames
            planned.append({"id": place, **run, "folder": place})
            run["config"] = nest(fake.settings)
            tables = tables_of(fake, score)
            if on_disk:
                write_run(folder / place, run, tables, finished=fake.finished)
                continue
            if fake.modes:
                (folder / place).mkdir(parents=True)
                tables["traces"].write_parquet(folder / place / "traces.parquet")
            info = {**run, "finished": "now" if fake.finished else None}
            found.append(select_tables(folder / place, info, tables))
    plan = {"name": "fake", "title": "Fake", "runs": planned}
    if not on_disk:
        return make_records_of(folder, plan, found)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "study.json", plan)
    return read_records(folder)


def nest(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings such as `learning.n_step` as in run.json; XI cuts traces unless they say."""
    nested: dict[str, dict[str, Any]] = {"learning": {"watkins": None}}
    for name, value in settings.items():
        component, field = name.split(".")
        nested.setdefault(component, {})[field] = value
    return nested


def write_run(folder: Path, run: dict, tables: dict, *, finished: bool) -> None:
    recorder = Recorder(folder, run)
    for name, frame in tables.items():
        recorder.write(name, frame.to_dicts())
    recorder.finish() if finished else recorder.close()


def tables_of(fake: Fake, score: float) -> dict[str, polars.DataFrame]:
    tenths = [k * fake.frames // 10 for k in range(1, 11)]
    even = 1 / max(1, len(fake.arms))
    return {
        "evaluations": polars.DataFrame(
            [{"frames": frames, "return": score, "length": 1} for frames in tenths]
        ),
        "episodes": polars.DataFrame(episode_rows(fake)),
        "bandits": polars.DataFrame(
            [
                {"frames": frames, "bandit": "exploit", "arm": arm, "probability": p}
                for frames, late in ((fake.frames // 10, False), (fake.frames, True))
                for arm, final in fake.arms.items()
                for p in [final if late else even]
            ]
        ),
        "traces": polars.DataFrame(
            [
                {
                    "frames": frames,
                    "length": len(fake.modes),
                    "modes": fake.modes,
                    "signal": signal_of(fake),
                    "reward": [0.0] * len(fake.modes),
                }
                for frames in tenths
                if fake.modes
            ],
        ),
    }


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
