"""Turns what iterations of a run leave behind into rows of its tables."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.agent.learner import Metrics
from sidequest.records import plain
from sidequest.runs.build import IterationRecord
from sidequest.switching.metacontroller import DIMENSIONS
from sidequest.switching.variants import ArmSets, Variant

Row = dict[str, Any]
GreedyRow = tuple[int, Any, Any]
"""Frames of the run when a greedy episode began, its return, its length."""


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
        """Args:
        trace_interval: Frames between two episodes in the table `traces`.
        """
        self.variant, self.arms, self.heads = variant, arms, heads
        self.traces = TraceSampler(trace_interval)

    def rows(
        self,
        record: IterationRecord,
        clock: Clock,
        updates: int,
        evaluations: Iterable[GreedyRow] = (),
    ) -> dict[str, list[Row]]:
        """Returns the rows that a chunk of iterations adds to each table.

        Args:
            record: With axes [iterations, L, B].
            updates: Made until the end of the chunk.
            evaluations: Greedy episodes that ended in the chunk.
        """
        frames = clock.after(np.size(record.is_first))
        variant, arms = self.variant, self.arms
        probabilities = np.asarray(record.probabilities[-1])
        rows = {
            "episodes": episode_rows(record, clock, variant, arms),
            "evaluations": evaluation_rows(frames, evaluations),
            "learning": learning_rows(record.metrics, self.heads, frames, updates),
            "bandits": bandit_rows(probabilities, variant, arms, frames),
            "traces": self.traces.rows(record, clock),
        }
        return {table: list(new) for table, new in rows.items()}


def episode_rows(
    record: IterationRecord, clock: Clock, variant: Variant, arms: ArmSets
) -> Iterator[Row]:
    """Yields a row for each episode that ended; `record` has axes [iterations, L, B]."""
    flat = {
        name: np.asarray(column).reshape(-1, clock.streams)
        for name, column in record.summaries._asdict().items()
    }
    choices = np.asarray(record.choices).reshape(-1, clock.streams, len(DIMENSIONS))
    adapted = variant.bandits(arms)
    for step, stream in zip(*np.nonzero(flat["finished"]), strict=True):
        at = {name: column[step, stream] for name, column in flat.items()}
        yield {
            "frames": clock.after(int(step)),
            "stream": int(stream),
            "return": at["episode_return"],
            "length": at["length"],
            "p_X": at["p_X"],
            "med_X": at["med_X"],
            "rmed_X": at["rmed_X"],
            "periods": at["periods"],
            "realised_rate": at["realised_rate"],
            "target_rate": at["target_rate"],
            **{
                f"arm_{name}": values[choices[step, stream, DIMENSIONS.index(name)]]
                for name, values in adapted.items()
            },
        }


def learning_rows(
    metrics: Metrics, heads: tuple[str, ...], frames: int, updates: int
) -> Iterator[Row]:
    """Yields one row of means over the iterations that had an update, if any had.

    Skipped updates are counted, and are in no mean unless there are no others.
    """
    columns = {name: np.asarray(values) for name, values in metrics._asdict().items()}
    updated = ~np.isnan(columns["skipped"])
    if not updated.any():
        return
    finite = updated & np.isfinite(columns["loss"])
    row: Row = {"frames": frames, "updates": updates}
    for name, values in columns.items():
        mean = values[finite if finite.any() else updated].mean(axis=0)
        if mean.ndim:
            row |= {f"{name}_{head}": one for head, one in zip(heads, mean, strict=True)}
        else:
            row[name] = mean
    for count in ("skipped", "skipped_in_a_row"):
        row[count] = columns[count][updated][-1]
    yield row


def bandit_rows(
    probabilities: Float[np.ndarray, "D K"], variant: Variant, arms: ArmSets, frames: int
) -> Iterator[Row]:
    """Yields a row for each arm of each bandit."""
    for name, values in variant.bandits(arms).items():
        row = probabilities[DIMENSIONS.index(name)]
        for arm, probability in zip(values, row, strict=False):
            yield {
                "frames": frames,
                "bandit": name,
                "arm": arm,
                "probability": probability,
            }


def evaluation_rows(frames: int, episodes: Iterable[GreedyRow]) -> Iterator[Row]:
    """Yields a row for each greedy episode."""
    for begun, episode_return, length in episodes:
        yield {
            "frames": frames,
            "begun": begun,
            "return": episode_return,
            "length": length,
        }


class TraceSampler:
    """Cuts environment 0 into episodes and keeps some, evenly spread over the run.

    The reward of a step arrives with the next one, so an episode is complete when the
    first step of its successor has been seen.
    """

    def __init__(self, interval: int):
        self._interval = interval  # frames between two episodes that are kept
        self._due = 0
        self._open: list[tuple[bool, float, float]] = []  # mode, signal, reward

    def snapshot(self) -> Row:
        """Returns the open episode and when the next is due, for a checkpoint."""
        modes, signals, rewards = zip(*self._open, strict=True) if self._open else [()] * 3
        return plain(
            {"due": self._due, "modes": modes, "signals": signals, "rewards": rewards}
        )

    def restore(self, state: Row) -> None:
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

    def rows(self, record: IterationRecord, clock: Clock) -> Iterator[Row]:
        """Yields a row for each episode that is complete and due."""
        columns = (record.modes, record.signals, record.rewards, record.is_first)
        steps = zip(*(np.asarray(column).reshape(-1) for column in columns), strict=True)
        for number, (mode, signal, reward, is_first) in enumerate(steps):
            if is_first:
                frames = clock.after(number)
                if self._open and frames >= self._due:
                    self._due = frames + self._interval
                    yield self._row(float(reward), frames)
                self._open.clear()
            self._open.append((bool(mode), float(signal), float(reward)))

    def _row(self, last_reward: float, frames: int) -> Row:
        modes, signals, rewards = zip(*self._open, strict=True)
        return {
            "frames": frames,
            "length": len(modes),
            "modes": "".join("X" if mode else "G" for mode in modes),
            "signal": list(signals),
            "reward": [*rewards[1:], last_reward],
        }
