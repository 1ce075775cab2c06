"""Turns what iterations of a run record into rows of its tables, and those into
TensorBoard files. docs/records.md says what each column means."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.agent.learner import Metrics
from sidequest.records import IDENTITY, plain, read_table
from sidequest.runs.build import IterationRecord
from sidequest.switching.metacontroller import DIMENSIONS
from sidequest.switching.variants import ArmSets, Variant

_Row = dict[str, Any]
_GreedyRow = tuple[int, Any, Any]
"""Frames of the run when a greedy episode began, its return, its length."""

_SUMMARY = (
    *("length", "p_X", "med_X", "rmed_X", "periods", "realised_rate", "target_rate"),
)
"""Columns of `episodes` that are named like the fields of `EpisodeSummary`."""


class Clock(NamedTuple):
    """Where a chunk of iterations lies in a run, in environment frames."""

    start: int
    """Frames of the run before the chunk."""
    streams: int
    frames_per_step: int

    def after(self, step: int) -> int:
        """Returns the frames of the run when all environments made `step` more steps."""
        return self.start + step * self.streams * self.frames_per_step


class RunLog:
    """Turns the records of one run into rows of its tables."""

    def __init__(
        self, variant: Variant, arms: ArmSets, heads: tuple[str, ...], trace_interval: int
    ):
        self._bandits, self._heads = variant.bandits(arms), heads
        self.traces = _TraceSampler(trace_interval)

    def rows(
        self,
        record: IterationRecord,
        clock: Clock,
        updates: int,
        evaluations: Iterable[_GreedyRow] = (),
    ) -> dict[str, list[_Row]]:
        """Returns the rows that a chunk of iterations adds to each table.

        Args:
            record: With axes [iterations, L, B].
            updates: Made until the end of the chunk.
            evaluations: Greedy episodes that ended in the chunk.
        """
        frames = clock.after(np.size(record.is_first))
        names = ("begun", "return", "length")
        greedy = (dict(zip(names, one, strict=True)) for one in evaluations)
        rows = {
            "episodes": self._episodes(record, clock),
            "evaluations": ({"frames": frames, **row} for row in greedy),
            "learning": self._learning(record.metrics, frames, updates),
            "bandits": self._arms(np.asarray(record.probabilities[-1]), frames),
            "traces": self.traces.rows(record, clock),
        }
        return {table: list(new) for table, new in rows.items()}

    def _episodes(self, record: IterationRecord, clock: Clock) -> Iterator[_Row]:
        """Yields a row for each episode that ended."""
        columns = record.summaries._asdict() | {"choices": record.choices}
        # [iterations, L, B, ...] becomes [steps, B, ...].
        flat = {
            name: np.asarray(column).reshape(-1, *np.shape(column)[2:])
            for name, column in columns.items()
        }
        for step, stream in zip(*np.nonzero(flat["finished"]), strict=True):
            at = {name: column[step, stream] for name, column in flat.items()}
            chosen: _Row = dict(zip(DIMENSIONS, at["choices"], strict=True))
            bandits = self._bandits.items()
            yield {
                "frames": clock.after(int(step)),
                "stream": int(stream),
                "return": at["episode_return"],
                **{name: at[name] for name in _SUMMARY},
                **{f"arm_{name}": arms[chosen[name]] for name, arms in bandits},
            }

    def _learning(self, metrics: Metrics, frames: int, updates: int) -> Iterator[_Row]:
        """Yields one row of means over the iterations that had an update, if any had.

        Skipped updates are counted, and are in no mean unless there are no others.
        """
        columns = {name: np.asarray(values) for name, values in metrics._asdict().items()}
        updated = ~np.isnan(columns["skipped"])
        if not updated.any():
            return
        finite = updated & np.isfinite(columns["loss"])
        row: _Row = {"frames": frames, "updates": updates}
        for name, values in columns.items():
            mean = values[finite if finite.any() else updated].mean(axis=0)
            if mean.ndim:
                by_head = zip(self._heads, mean, strict=True)
                row |= {f"{name}_{head}": value for head, value in by_head}
            else:
                row[name] = mean
        for count in ("skipped", "skipped_in_a_row"):
            row[count] = columns[count][updated][-1]
        yield row

    def _arms(self, probabilities: Float[np.ndarray, "D K"], frames: int) -> Iterator[_Row]:
        """Yields a row for each arm of each bandit."""
        for name, arms in self._bandits.items():
            own = probabilities[DIMENSIONS.index(name)]
            for arm, probability in zip(arms, own, strict=False):
                named = {"bandit": name, "arm": arm, "probability": probability}
                yield {"frames": frames, **named}


class _TraceSampler:
    """Cuts environment 0 into episodes and keeps some, evenly spread over the run.

    The reward of a step arrives with the next one, so an episode is complete when the
    first step of its successor has been seen.
    """

    def __init__(self, interval: int):
        self._interval = interval  # frames between two episodes that are kept
        self._due = 0
        self._open: list[tuple[bool, float, float]] = []  # mode, signal, reward

    def snapshot(self) -> _Row:
        """Returns the open episode and when the next is due, for a checkpoint."""
        modes, signals, rewards = zip(*self._open, strict=True) if self._open else [()] * 3
        return plain(
            {"due": self._due, "modes": modes, "signals": signals, "rewards": rewards}
        )

    def restore(self, state: _Row) -> None:
        """Continues from a snapshot, in which None stands for what is not finite."""
        self._due = state["due"]
        signals, rewards = (
            [math.nan if value is None else value for value in state[column]]
            for column in ("signals", "rewards")
        )
        self._open = list(zip(state["modes"], signals, rewards, strict=True))

    def drop_open_episode(self) -> None:
        """Forgets the open episode: its environment was interrupted."""
        self._open.clear()

    def rows(self, record: IterationRecord, clock: Clock) -> Iterator[_Row]:
        """Yields a row for each episode that is complete and due."""
        columns = (record.modes, record.signals, record.rewards, record.is_first)
        steps = zip(*(np.asarray(column).reshape(-1) for column in columns), strict=True)
        for number, (mode, signal, reward, is_first) in enumerate(steps):
            if is_first:
                frames = clock.after(number)
                if self._open and frames >= self._due:
                    self._due = frames + self._interval
                    modes, signals, rewards = zip(*self._open, strict=True)
                    yield {
                        "frames": frames,
                        "length": len(modes),
                        "modes": "".join("X" if explores else "G" for explores in modes),
                        "signal": list(signals),
                        "reward": [*rewards[1:], float(reward)],
                    }
                self._open.clear()
            self._open.append((bool(mode), float(signal), float(reward)))


def export_tensorboard(folder: Path) -> None:
    """Writes `tensorboard/` into the run's folder; steps are environment frames."""
    from tensorboardX import SummaryWriter

    learned = read_table(folder, "learning").columns
    curves = {
        "episodes": ("return", "length", "p_X", "med_X", "rmed_X", "realised_rate"),
        "evaluations": ("return", "length"),
        "learning": [name for name in learned if name not in (*IDENTITY, "frames")],
    }
    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for table, columns in curves.items():
            for row in read_table(folder, table).iter_rows(named=True):
                for column in columns:
                    if row.get(column) is not None:
                        writer.add_scalar(f"{table}/{column}", row[column], row["frames"])
        for row in read_table(folder, "bandits").iter_rows(named=True):
            name = f"bandits/{row['bandit']}/{row['arm']:g}"
            writer.add_scalar(name, row["probability"], row["frames"])
