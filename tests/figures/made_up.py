"""Made-up studies whose right answers are known. Always the same for the same arguments.

What every cell's tables say, for a cell of score s and a budget of F frames:

    evaluations   at k F / 10, k = 1 … 10: two episodes that return s k / 10 ± 1. So the
                  curve is a line through 0, and the final performance is s
    episodes      40 that end at k F / 40. p_X ends at `late_p_of` the variant; where a
                  bandit adapts it, it comes down to that in a line from 0.3 above. With a
                  coin it is 0.05 more and less in turn. rmed_X is p_X / 4; the realised
                  rate is 5% above the target
    bandits       the first arm's probability climbs in a line from 1 / K to 0.7
    traces        20 episodes of 400 steps: what a variant of this kind looks like
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars

from sidequest.records import write_json
from sidequest.runs.spec import folder_name
from sidequest.switching.variants import Variant, parse
from tests.figures.fakes import nest

FRAMES = 1_000_000
EVALUATIONS, EPISODES, TRACES, STEPS = 10, 40, 20, 400
GAMES = ("minatar:breakout", "minigrid:door_key_6x6")

# Each figure of the paper finds its variants here.
SETTINGS = (
    "experiment-level-X",
    "experiment-level-G",
    "step-level-0.01",
    "episode-level-*",
    "intra(10,informed,p*,X)",
    "intra(10,blind,100,G)",
    "intra(10,informed,0.01,G)",
    "intra(*,blind,n*,X)",
    "intra(10,blind,n*,X)",
    "intra(10,blind,p*,X)",
    "intra(=,blind,n*,G)",
    "intra(=,blind,n*,X)",
    "intra(=,informed,p*,G)",
)
VARIANTS = (
    *(f"XU-{setting}" for setting in SETTINGS),
    *(f"XI-{setting}" for setting in SETTINGS),
    "XI-intra(10,informed:mismatch,p*,X)",
    "XI-intra(10,informed:variance,p*,X)",
    *(f"XS-{setting}" for setting in SETTINGS[2:6]),
)


class Cell(NamedTuple):
    """One run of a made-up study."""

    variant: str
    game: str
    seed: int
    score: float
    settings: dict[str, Any] = {}
    share: float = 1.0
    """Of the budget, that it has behind it; below 1 it is still going, 0: not started."""


def score_of(variant: str, seed: int) -> float:
    """Later in `VARIANTS` is better by 10, a higher seed by 2."""
    return 10.0 * (VARIANTS.index(variant) + 1) + 2.0 * seed


def late_p_of(variant: str) -> float:
    """The later in `SETTINGS`, the more it explores; what is not there explores 0.1."""
    setting = variant.partition("-")[2]
    place = SETTINGS.index(setting) if setting in SETTINGS else 1
    return 0.05 + 0.05 * place


def all_cells(
    variants: Sequence[str] = VARIANTS, games: Sequence[str] = GAMES, seeds: int = 2
) -> list[Cell]:
    """Every variant on every game; and the probe of trace cutting, if XI's is there."""
    cells = [
        Cell(variant, game, seed, score_of(variant, seed))
        for variant in variants
        for game in games
        for seed in range(seeds)
    ]
    probed = "XI-intra(10,informed,p*,X)"
    if probed in variants:
        cells += [
            Cell(probed, game, seed, 100.0 + 10 * seed, {"learning.watkins": False})
            for game in games
            for seed in range(seeds)
        ]
    return cells


def make_study(folder: Path, cells: Sequence[Cell], *, name: str = "made-up") -> Path:
    """Writes study.json and the runs; returns the folder."""
    runs = []
    for cell in cells:
        place = folder_of(cell)
        if cell.share > 0:
            write_run(folder / place, cell)
        runs.append(
            {
                "id": str(place),
                **{key: getattr(cell, key) for key in ("variant", "game", "seed")},
                "frames": FRAMES,
                "folder": str(place),
                "settings": cell.settings,
            }
        )
    plan = {"name": name, "title": "A made-up study", "started": "2000-01-01T00:00:00"}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "study.json", {**plan, "command": "made up", "runs": runs})
    return folder


def folder_of(cell: Cell) -> Path:
    suffix = "".join(
        f"-{key.split('.')[-1]}-{json.dumps(one)}" for key, one in cell.settings.items()
    )
    variant = folder_name(parse(cell.variant)) + suffix
    return Path(variant) / cell.game.replace(":", "-") / f"seed-{cell.seed}"


def write_run(folder: Path, cell: Cell) -> None:
    """What a recorder writes: Parquet of a finished run, JSON lines before.

    Written directly, because a recorder looks at every number, and there are millions.
    """
    variant = parse(cell.variant)
    rng = np.random.default_rng((len(cell.variant), len(cell.game), cell.seed))
    tables = {
        "evaluations": evaluation_rows(cell),
        "episodes": episode_rows(variant),
        "bandits": bandit_rows(variant),
        "traces": trace_rows(variant, rng),
    }
    folder.mkdir(parents=True)
    for name, rows in tables.items():
        done = [row for row in rows if row["frames"] <= cell.share * FRAMES]
        if done and cell.share == 1:
            frame = polars.DataFrame(done, infer_schema_length=None)
            frame.write_parquet(folder / f"{name}.parquet")
        elif done:
            lines = "".join(json.dumps(row) + "\n" for row in done)
            (folder / f"{name}.jsonl").write_text(lines)
    run = {"variant": cell.variant, "game": cell.game, "seed": cell.seed, "frames": FRAMES}
    made = {
        "config": nest(cell.settings),
        "versions": {"sidequest": "0"},
        "started": "2000-01-01T00:00:00",
    }
    finished = "2000-01-01T01:00:00" if cell.share == 1 else None
    write_json(folder / "run.json", {**run, **made, "finished": finished})


def evaluation_rows(cell: Cell) -> list[dict]:
    return [
        {
            "frames": k * FRAMES // EVALUATIONS,
            "return": cell.score * k / EVALUATIONS + luck,
            "length": STEPS,
        }
        for k in range(1, EVALUATIONS + 1)
        for luck in (-1.0, 1.0)
    ]


def episode_rows(variant: Variant) -> list[dict]:
    rows = []
    bandits = variant.bandits()
    rate = variant.exploit.value if variant.exploit else None
    for k in range(1, EPISODES + 1):
        p_X = late_p_of(str(variant))
        if bandits:
            p_X += 0.3 * (EPISODES - k) / (EPISODES - 1)
        if variant.trigger == "blind" and asks_for_rate(variant):
            p_X += 0.05 * (-1) ** k
        arms = {f"arm_{name}": arms[k % len(arms)] for name, arms in bandits.items()}
        target = arms.get("arm_exploit", rate) if asks_for_rate(variant) else None
        rows.append(
            {
                "frames": k * FRAMES // EPISODES,
                "stream": 0,
                "return": float(k),
                "length": STEPS,
                "p_X": p_X,
                "med_X": STEPS * p_X / 4,
                "rmed_X": p_X / 4,
                "periods": 4,
                "realised_rate": None if target is None else 1.05 * target,
                "target_rate": target,
                **arms,
            }
        )
    return rows


def asks_for_rate(variant: Variant) -> bool:
    return variant.exploit is not None and variant.exploit.unit == "rate"


def bandit_rows(variant: Variant) -> list[dict]:
    rows = []
    for k in range(1, EVALUATIONS + 1):
        for name, arms in variant.bandits().items():
            first = 1 / len(arms) + (0.7 - 1 / len(arms)) * (k - 1) / (EVALUATIONS - 1)
            rest = (1 - first) / (len(arms) - 1)
            rows += [
                {
                    "frames": k * FRAMES // EVALUATIONS,
                    "bandit": name,
                    "arm": arm,
                    "probability": first if arm == arms[0] else rest,
                }
                for arm in arms
            ]
    return rows


def trace_rows(variant: Variant, rng: np.random.Generator) -> list[dict]:
    rows = []
    for k in range(1, TRACES + 1):
        modes = draw_modes(variant, k, rng)
        signal = rng.exponential(size=STEPS) if variant.informed else np.full(STEPS, np.nan)
        rows.append(
            {
                "frames": k * FRAMES // TRACES,
                "length": STEPS,
                "modes": modes,
                "signal": [None if np.isnan(one) else float(one) for one in signal],
                "reward": [float(one) for one in rng.random(STEPS) < 0.02],
            }
        )
    return rows


def draw_modes(variant: Variant, number: int, rng: np.random.Generator) -> str:
    """Whole episodes of one mode, single steps, or periods of 10: even or clustered."""
    if variant.granularity == "experiment":
        return str(variant.start) * STEPS
    if variant.granularity == "episode":
        return "GX"[number % 2] * STEPS
    modes = np.full(STEPS, "G")
    if variant.granularity == "step":
        modes[rng.random(STEPS) < 0.05] = "X"
    elif variant.informed:
        first = int(rng.integers(0, STEPS - 130))
        for start in first + np.array([0, 15, 30, 110]):
            modes[start : start + 10] = "X"
    else:
        for start in range(100, STEPS, 110):
            modes[start : start + 10] = "X"
    if variant.start == "X":
        modes[:10] = "X"
    return "".join(modes)
