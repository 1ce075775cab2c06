"""Real episodes for the report's strip viewer: few enough to fit into a page."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from sidequest.figures.claims.cells import group_seeds
from sidequest.figures.reading import Records, Run, table

MOST_EPISODES = 15  # of each variant on each game, as in figure 5
MOST_POINTS = 400  # of an episode's trigger signal
ROOM = 3_000_000  # characters of JSON for all of them


def read_episodes(records: Records) -> list[dict[str, Any]]:
    """Recorded episodes of each variant on each game, spread evenly over training.

    The JSON that the page embeds: `periods` are the lengths of the modes in turn, exploit
    first; `reward` has (step, reward) where it is not zero. If all is too much for one
    page, every cell gives up episodes until it fits.
    """
    cells = [
        {"variant": label, "game": runs[0].game, "episodes": _choose(runs)}
        for (label, _), runs in group_seeds(records.runs).items()
    ]
    cells = [cell for cell in cells if cell["episodes"]]
    most = MOST_EPISODES
    while most > 1 and len(json.dumps(cells)) > ROOM:
        most = max(1, most * 2 // 3)
        cells = [cell | {"episodes": spread(cell["episodes"], most)} for cell in cells]
    return cells


def spread(items: Sequence, most: int) -> list:
    """At most so many of the items, at even distances, the last one among them."""
    if len(items) <= most:
        return list(items)
    places = np.linspace(len(items) - 1, 0, most).round().astype(int)
    return [items[place] for place in sorted(places)]


def _choose(runs: list[Run]) -> list[dict[str, Any]]:
    """Episodes of one cell, in the order of training; the others are not unpacked."""
    places = []
    for number, run in enumerate(runs):
        frame = table(run, "traces")
        if len(frame):
            rows = zip(frame["frames"], frame["length"], range(len(frame)), strict=True)
            places += [(frames, number, row) for frames, length, row in rows if length]
    return [
        _episode(runs[number].seed, table(runs[number], "traces").row(row, named=True))
        for _, number, row in spread(sorted(places), MOST_EPISODES)
    ]


def _episode(seed: int, row: dict) -> dict[str, Any]:
    runs = [(mode, len(list(same))) for mode, same in itertools.groupby(row["modes"])]
    periods = [length for _, length in runs]
    rewards = [0.0 if one is None else float(one) for one in row["reward"]]
    return {
        "seed": seed,
        "frames": row["frames"],
        "length": len(row["modes"]),
        "periods": periods if runs[0][0] == "G" else [0, *periods],
        "signal": thin(row["signal"]),
        "reward": [[step, _short(one)] for step, one in enumerate(rewards) if one],
        "return": _short(sum(rewards)),
    }


def thin(signal: Sequence[float | None]) -> dict[str, Any]:
    """The greatest of each `stride` steps, so that no peak is lost."""
    stride = -(-len(signal) // MOST_POINTS) or 1
    values = []
    for start in range(0, len(signal), stride):
        known = [one for one in signal[start : start + stride] if one is not None]
        values.append(_short(max(known)) if known else None)
    return {"stride": stride, "values": values}


def _short(value: float) -> float:
    return float(f"{value:.4g}")
