"""From what rounds leave behind to the rows of the tables."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sidequest.agent.learner import Metrics
from sidequest.records import Recorder, plain
from sidequest.runs.rounds import RoundRecord
from sidequest.switching.metacontroller import DIMENSIONS
from sidequest.switching.variants import ArmSets, Variant

Row = dict[str, Any]
COLUMNS = ("signals", "rewards")  # of an open episode, beside its modes


class Clock(NamedTuple):
    """Where a chunk of rounds lies in a run, in environment frames."""

    start: int
    """Frames of the run before the chunk."""
    streams: int
    frames_per_step: int

    def after(self, step: int) -> int:
        """Frames of the run when all streams have made `step` more steps."""
        return self.start + step * self.streams * self.frames_per_step


def episode_rows(
    record: RoundRecord, clock: Clock, variant: Variant, arms: ArmSets
) -> Iterator[Row]:
    """One row for each episode that ended; `record` has axes [rounds, L, B]."""
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
    """One row: means over the rounds of a chunk that had an update; none without one.

    Updates that were left out are counted, and are in no mean unless there are no others.
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
    """One row for each arm of each bandit."""
    for name, values in variant.bandits(arms).items():
        row = probabilities[DIMENSIONS.index(name)]
        for arm, probability in zip(values, row, strict=False):
            yield {
                "frames": frames,
                "bandit": name,
                "arm": arm,
                "probability": probability,
            }


def evaluation_rows(frames: int, episodes: Iterable[tuple[int, Any, Any]]) -> Iterator[Row]:
    """One row for each greedy episode: frames when it began, its return, its length."""
    for begun, episode_return, length in episodes:
        yield {
            "frames": frames,
            "begun": begun,
            "return": episode_return,
            "length": length,
        }


class TraceSampler:
    """Cuts stream 0 into episodes and keeps some, evenly spread over the run.

    The reward of a step arrives with the next one, so an episode is complete when the
    first step of its successor has been seen.
    """

    def __init__(self, every: int):
        self.every = every
        """Frames between two episodes that are kept."""
        self._due = 0
        self._open: list[tuple[bool, float, float]] = []

    def state(self) -> Row:
        """What a checkpoint keeps: the episode that is open, and when the next is due."""
        modes, signals, rewards = zip(*self._open, strict=True) if self._open else [()] * 3
        return plain(
            {"due": self._due, "modes": modes, "signals": signals, "rewards": rewards}
        )

    def go_on(self, state: Row) -> None:
        """From such a state. What is not finite was kept as None, as it is in tables."""
        self._due = state["due"]
        columns = ([math.nan if x is None else x for x in state[name]] for name in COLUMNS)
        self._open = list(zip(state["modes"], *columns, strict=True))

    def forget(self) -> None:
        """Drops the open episode: its stream was cut off."""
        self._open.clear()

    def rows(self, record: RoundRecord, clock: Clock) -> Iterator[Row]:
        steps = zip(
            np.asarray(record.modes).reshape(-1),
            np.asarray(record.signals).reshape(-1),
            np.asarray(record.rewards).reshape(-1),
            np.asarray(record.is_first).reshape(-1),
            strict=True,
        )
        for number, (mode, signal, reward, is_first) in enumerate(steps):
            if is_first:
                frames = clock.after(number)
                if self._open and frames >= self._due:
                    self._due = frames + self.every
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


class Scribe(NamedTuple):
    """Writes what rounds of one run leave behind into all tables but `evaluations`."""

    variant: Variant
    arms: ArmSets
    heads: tuple[str, ...]
    traces: TraceSampler

    def write(
        self, recorder: Recorder, record: RoundRecord, clock: Clock, updates: int
    ) -> None:
        """Of a chunk of rounds; `updates` were made until its end."""
        frames = clock.after(np.size(record.is_first))
        variant, arms = self.variant, self.arms
        recorder.write("episodes", episode_rows(record, clock, variant, arms))
        recorder.write(
            "learning", learning_rows(record.metrics, self.heads, frames, updates)
        )
        probabilities = np.asarray(record.probabilities[-1])
        recorder.write("bandits", bandit_rows(probabilities, variant, arms, frames))
        recorder.write("traces", self.traces.rows(record, clock))
