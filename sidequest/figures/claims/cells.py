"""Cells of a study: runs that differ in nothing but the seed, and which may be compared.

Two cells are compared only if they share the game, the budget and the settings. What is
compared with what follows from the paper's names: a rule takes a variant and gives the one
that it is to be held against, such as the same variant with the other starting mode.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.figures.claims.partners import Partner
from sidequest.figures.reading import Run, column, table, uses_watkins, variant_of
from sidequest.figures.statistics import final_performance
from sidequest.switching.variants import Variant

SEEDS_NEEDED = 2
WATKINS = "learning.watkins"


class Cell(NamedTuple):
    """The runs of one variant on one game, with one budget and one choice of settings."""

    label: str
    """The variant's name, with the settings in which cells of the study differ."""
    variant: Variant
    game: str
    place: tuple
    """Cells may be compared if this is the same: game, budget, settings."""
    watkins: bool
    runs: tuple[Run, ...]

    @property
    def scores(self) -> Float[np.ndarray, "N"]:
        """Final performance of each seed."""
        return np.array([final_score(run) for run in self.runs], float)


class Match(NamedTuple):
    """A cell and the one that it is held against."""

    first: Cell
    second: Cell

    @property
    def game(self) -> str:
        return self.first.game

    @property
    def text(self) -> str:
        return f"{self.first.label} over {self.second.label}"

    @property
    def apart(self) -> int:
        """1 if every seed of the first beats every seed of the second, -1 if it is the
        other way round, 0 if their ranges overlap."""
        x, y = self.first.scores, self.second.scores
        return int(x.min() > y.max()) - int(x.max() < y.min())


def group_seeds(runs: Sequence[Run]) -> dict[tuple[str, tuple], list[Run]]:
    """Runs that differ in nothing but the seed, by label and place, in the runs' order."""
    varying = varying_settings(runs)
    groups: dict[tuple[str, tuple], list[Run]] = {}
    for run in runs:
        groups.setdefault((label(run, varying), place_of(run)), []).append(run)
    return groups


def judged_cells(runs: Sequence[Run], *tables: str) -> list[Cell]:
    """Cells that a claim may rest on: two finished seeds at least, with these tables."""
    cells = []
    for (name, place), members in group_seeds(runs).items():
        variant = variant_of(members[0])
        sound = [
            run
            for run in members
            if run.finished and all(len(table(run, one)) for one in tables)
        ]
        if "evaluations" in tables:
            sound = [run for run in sound if not np.isnan(final_score(run))]
        if variant is not None and len({run.seed for run in sound}) >= SEEDS_NEEDED:
            watkins = uses_watkins(members[0])
            cells.append(Cell(name, variant, members[0].game, place, watkins, tuple(sound)))
    return cells


def by_mode_and_place(cells: Iterable[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """Cells that share the explore mode, the game, the budget and the settings."""
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.variant.mode, cell.place), []).append(cell)
    for (mode, _), members in groups.items():
        yield mode, members


def match(cells: Sequence[Cell], partner: Partner) -> list[Match]:
    """Each cell with its partner's cell of the same game, budget and settings."""
    known = {(cell.variant, cell.place): cell for cell in cells}
    matches = []
    for cell in cells:
        other = partner(cell.variant)
        if other is not None and (other, cell.place) in known:
            matches.append(Match(cell, known[other, cell.place]))
    return matches


def match_watkins(cells: Sequence[Cell]) -> list[Match]:
    """Each cell with trace cutting and the same one without."""
    known = {
        (cell.variant, _without_watkins(cell.place), cell.watkins): cell for cell in cells
    }
    return [
        Match(cell, known[variant, place, False])
        for (variant, place, watkins), cell in known.items()
        if watkins and (variant, place, False) in known
    ]


def final_score(run: Run) -> float:
    """Mean return over the last 10% of a run's training; NaN if it was not evaluated."""
    frames, returns = column(run, "evaluations", "frames", "return")
    known = ~np.isnan(returns)
    return final_performance(frames[known], returns[known], run.frames_done)


def place_of(run: Run) -> tuple:
    """Budgets count as equal if two digits are: populations round them to whole rounds."""
    return run.game, f"{run.frames:.1e}", json.dumps(run.settings, sort_keys=True)


def varying_settings(runs: Sequence[Run]) -> set[str]:
    """Settings in which runs of one game differ; the others belong to the study."""
    values: dict[tuple[str, str], set[str]] = {}
    for key in {key for run in runs for key in run.settings}:
        for run in runs:
            text = json.dumps(run.settings.get(key), sort_keys=True)
            values.setdefault((run.game, key), set()).add(text)
    return {key for (_, key), different in values.items() if len(different) > 1}


def label(run: Run, varying: Iterable[str]) -> str:
    """`XU-step-level-0.01`, or `XU-step-level-0.01 [learning.watkins=true]`."""
    chosen = {key: run.settings[key] for key in sorted(varying) if key in run.settings}
    if not chosen:
        return run.variant
    return f"{run.variant} [{', '.join(f'{k}={_plain(v)}' for k, v in chosen.items())}]"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _without_watkins(place: tuple) -> tuple:
    game, frames, settings = place
    rest = {key: value for key, value in json.loads(settings).items() if key != WATKINS}
    return game, frames, json.dumps(rest, sort_keys=True)
