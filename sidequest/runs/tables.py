"""Turns what iterations of runs record into rows of their tables, and those into
TensorBoard files. docs/records.md says what each column means."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from sidequest import records
from sidequest.agent.learner import Metrics
from sidequest.records import IDENTITY, Recorder, now, plain, read_run, read_table
from sidequest.runs.build import Agent
from sidequest.runs.checkpoint import ResumePoint, Snapshot
from sidequest.runs.display import Display, Progress, ProgressMeter
from sidequest.runs.spec import identity
from sidequest.runs.state import Chunk, IterationRecord
from sidequest.switching.metacontroller import DIMENSIONS
from sidequest.switching.variants import ArmSets, Variant
from sidequest.types import EpisodeSummary

_LONGEST_TRACE = 100_000
"""Steps of a trace: an episode that never ends would fill memory and checkpoints."""
_FLUSHED_EVERY = 2.0
"""Seconds after which other processes see new rows: for many runs that takes a while."""
_MACHINE = ("versions", "python", "cores", "device")
"""What may change when a run resumes, though the last bits may change too."""
_Row = dict[str, Any]
_GreedyRow = tuple[int, Any, Any]
"""Frames of the run when a greedy episode began, its return, its length."""

_SUMMARY = EpisodeSummary._fields[2:]
"""Columns of `episodes` that are named like the fields: all but `finished` and the
return."""


class RunLog:
    """Turns the records of one run into rows of its tables."""

    def __init__(
        self,
        variant: Variant,
        arms: ArmSets,
        heads: tuple[str, ...],
        *,
        frames_per_step: int,
        trace_interval: int,
    ):
        """Takes the frames of a step of all environments together, and those between two
        episodes in the table `traces`."""
        self._bandits, self._heads = variant.bandits(arms), heads
        self._frames_per_step = frames_per_step
        self.traces = _TraceSampler(trace_interval)

    def rows(
        self,
        record: IterationRecord,
        start: int,
        updates: int,
        evaluations: Iterable[_GreedyRow] = (),
    ) -> dict[str, list[_Row]]:
        """Returns the rows that a chunk of iterations adds to each table.

        Args:
            record: With axes [iterations, L, B].
            start: Frames of the run before the chunk.
            updates: Made until the end of the chunk.
            evaluations: Greedy episodes that ended in the chunk.
        """
        each = self._frames_per_step
        frames = range(start, start + each * (np.size(record.is_first) + 1), each)
        end, names = frames[-1], ("begun", "return", "length")
        greedy = (dict(zip(names, one, strict=True)) for one in evaluations)
        rows = {
            "episodes": self._episodes(record, frames),
            "evaluations": ({"frames": end, **row} for row in greedy),
            "learning": self._learning(record.metrics, end, updates),
            "bandits": self._arms(np.asarray(record.probabilities[-1]), end),
            "traces": self.traces.rows(record, frames),
        }
        return {table: list(new) for table, new in rows.items()}

    def _episodes(self, record: IterationRecord, frames: Sequence[int]) -> Iterator[_Row]:
        """Yields a row for each episode that ended; `frames` are those at every step."""
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
                "frames": frames[step],
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

    def rows(self, record: IterationRecord, frames: Sequence[int]) -> Iterator[_Row]:
        """Yields a row for each episode that is complete and due."""
        columns = (record.modes, record.signals, record.rewards, record.is_first)
        steps = zip(*(np.asarray(column).reshape(-1) for column in columns), strict=True)
        for number, (mode, signal, reward, is_first) in enumerate(steps):
            if is_first:
                if 0 < len(self._open) < _LONGEST_TRACE and frames[number] >= self._due:
                    self._due = frames[number] + self._interval
                    modes, signals, rewards = zip(*self._open, strict=True)
                    yield {
                        "frames": frames[number],
                        "length": len(modes),
                        "modes": "".join("X" if explores else "G" for explores in modes),
                        "signal": list(signals),
                        "reward": [*rewards[1:], float(reward)],
                    }
                self._open.clear()
            if len(self._open) < _LONGEST_TRACE:
                self._open.append((bool(mode), float(signal), float(reward)))


def describe_machine() -> dict[str, Any]:
    """Returns devices, versions and machine."""
    devices = jax.local_devices()
    device = f"{len(devices)} x {devices[0].device_kind}"
    return {"device": device, **records.describe_machine()}


def _open_recorder(point: ResumePoint, say: Callable[[str], None]) -> Recorder:
    """Opens a run's tables, cut back to its checkpoint, and notes in run.json that it
    resumes, and what has changed since it began."""
    folder, machine = point.spec.folder, plain(describe_machine())
    changed = {
        name: [before, machine[name]]
        for name, before in read_run(folder).items()
        if name in _MACHINE and before != machine[name]
    }
    for name, sides in changed.items():
        before, here = (side if name == "versions" else {name: side} for side in sides)
        for one in {**before, **here}:
            if before.get(one) != here.get(one):
                said = f"{folder} began with {one} {before.get(one)}, now {here.get(one)}"
                say(f"{said}: the last bits may differ")
    played = point.snapshot is not None or any(folder.glob("*.jsonl"))
    if played and point.snapshot is None:
        say(f"{folder} has no checkpoint yet: it starts from the beginning")
    digests = point.snapshot.records if point.snapshot else {}
    note = None
    if played or changed:  # else its folder was created, and nothing more
        note = {"frames": point.frames, "time": now(), "command": machine["command"]}
        note["changed"] = changed
    return Recorder.resume(folder, digests, note)


class GroupLog:
    """The host's side of runs that train together: their tables and their progress."""

    def __init__(
        self,
        agent: Agent,
        points: Sequence[ResumePoint],
        display: Display,
        continues_episodes: bool,
    ):
        """Opens the tables where the snapshots end; counts seconds from now on."""
        self.specs = [point.spec for point in points]
        config, total = self.specs[0].config, self.specs[0].frames
        self._logs = [
            RunLog(
                spec.variant,
                agent.arms,
                agent.heads,
                frames_per_step=agent.environments * agent.frames_per_step,
                trace_interval=total // config.evaluation.traces,
            )
            for spec in self.specs
        ]
        names = [(str(spec.variant), spec.seed) for spec in self.specs]
        self._meter = ProgressMeter(names, total)
        # The block before emulators began anew is in the checkpoint, and not yet written.
        self._is_cut = not continues_episodes and points[0].snapshot is not None
        self._flushed = -math.inf  # when, by the clock
        self.seconds = [0.0] * len(points)
        self.newest_updates: list[dict[str, Any]] = [{} for _ in points]
        """The newest row of each run's table `learning`."""
        self.recorders: list[Recorder] = []
        for run, point in enumerate(points):
            self.recorders.append(_open_recorder(point, display.say))
            if point.snapshot:
                saved = point.snapshot.host["log"]
                self.seconds[run] = saved["seconds"]
                if saved["evaluation"] is not None:
                    self._meter.evaluations[run] = saved["evaluation"]
                self._logs[run].traces.restore(saved["trace"])
        self._lap = time.perf_counter()

    def write(self, chunk: Chunk, frames: int) -> Progress:
        """Writes what a chunk recorded; returns what a display shows."""
        columns = (self._logs, chunk.records, chunk.updates, chunk.evaluations)
        rows = [
            log.rows(record, chunk.start, updates, evaluations)
            for log, record, updates, evaluations in zip(*columns, strict=True)
        ]
        if self._is_cut:
            self._is_cut = False
            for log in self._logs:
                log.traces.drop_open_episode()
        for run, tables in enumerate(rows):
            for table, new in tables.items():
                self.recorders[run].write(table, new)
            if tables["learning"]:
                self.newest_updates[run] = tables["learning"][-1]
        lap, self._lap = self._lap, time.perf_counter()
        if self._lap - self._flushed >= _FLUSHED_EVERY:
            self._flushed = self._lap
            for recorder in self.recorders:
                recorder.flush()
        self.seconds = [seconds + self._lap - lap for seconds in self.seconds]
        return self._meter.update(
            rows,
            frames=frames,
            new_frames=frames - chunk.start,
            seconds=self._lap - lap,
            updates=chunk.updates[0],
            replay_fill=chunk.replay_fill,
        )

    def snapshots(
        self, states: Iterable[tuple[dict[str, Any], dict[str, Any]]], frames: int
    ) -> dict[Path, Snapshot]:
        """Returns a snapshot of each run, by its folder; see `Runtime.snapshot`."""
        snapshots = {}
        for run, (state, counters) in enumerate(states):
            log = {
                "seconds": self.seconds[run],
                "evaluation": self._meter.evaluations[run],
                "trace": self._logs[run].traces.snapshot(),
            }
            snapshots[self.specs[run].folder] = Snapshot(
                run=identity(self.specs[run]),
                frames=frames,
                host=plain({**counters, "log": log}),
                records=self.recorders[run].sync(),
                state=state,
            )
        return snapshots

    def close(self) -> None:
        """Closes the tables."""
        for recorder in self.recorders:
            recorder.close()


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
