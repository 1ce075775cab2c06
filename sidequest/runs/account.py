"""The host's account of a run on emulators: rows for tables, numbers for a display."""

import math
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sidequest.config import Config
from sidequest.environments.scores import SCORES, human_normalised
from sidequest.replay.tiles import tile_report
from sidequest.runs import tables
from sidequest.runs.assembly import arms_of
from sidequest.runs.breakdown import Streak
from sidequest.runs.hosted import BlockRecord, HostedRun
from sidequest.runs.records import Recorder, plain
from sidequest.runs.spec import Progress, RunSpec


class Account:
    """Turns the records of blocks into rows and into what a display shows."""

    def __init__(self, run: RunSpec, config: Config, hosted: HostedRun, total: int):
        self.run, self.hosted, self.total = run, hosted, total
        self.arms = arms_of(config.switching)
        self.heads = tuple(head.name for head in hosted.parts.rules.heads)
        self.frames = 0
        self.evaluated = math.nan
        self.traces = tables.TraceSampler(total // config.evaluation.traces)
        self.streak = Streak()
        self._updates = 0
        self._earlier = 0.0  # seconds of the run before it went on here
        self._begin = self._before = time.perf_counter()

    def host(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return plain(
            {
                "frames": self.frames,
                "evaluated": self.evaluated,
                "streak": self.streak,
                "updates": self._updates,
                "seconds": self.seconds,
                "trace": self.traces.state(),
            }
        )

    def go_on(self, host: Mapping[str, Any]) -> None:
        """From what was kept; the episode that the trace was in is gone."""
        self.frames, self._updates = host["frames"], host["updates"]
        self.evaluated = math.nan if host["evaluated"] is None else host["evaluated"]
        self.streak, self._earlier = Streak(*host["streak"]), host["seconds"]
        self.traces.go_on(host["trace"])
        self.traces.forget()

    @property
    def seconds(self) -> float:
        return self._earlier + time.perf_counter() - self._begin

    @property
    def frames_per_block(self) -> int:
        parts = self.hosted.parts
        frames = self.hosted.groups[0].spec.frames_per_step
        return parts.streams * parts.block_length * frames

    def write(self, recorder: Recorder, record: BlockRecord) -> None:
        """Writes what one block left behind."""
        parts, variant = self.hosted.parts, self.run.variant
        clock = tables.Clock(
            record.block * self.frames_per_block,
            parts.streams,
            self.hosted.groups[0].spec.frames_per_step,
        )
        self.frames = (record.block + 1) * self.frames_per_block
        rounds = jax.tree.map(lambda leaf: np.asarray(leaf)[None], record.round)
        due, self._updates = record.updates - self._updates, record.updates
        self.streak = self.streak.after(rounds.metrics, [due])
        recorder.write("episodes", tables.episode_rows(rounds, clock, variant, self.arms))
        recorder.write(
            "learning",
            tables.learning_rows(rounds.metrics, self.heads, self.frames, record.updates),
        )
        recorder.write(
            "bandits",
            tables.bandit_rows(rounds.probabilities[0], variant, self.arms, self.frames),
        )
        recorder.write("traces", self.traces.rows(rounds, clock))
        recorder.write(
            "evaluations",
            (
                {
                    "frames": self.frames,
                    "return": episode.episode_return,
                    "length": episode.length,
                }
                for episode in record.evaluations
            ),
        )

    def progress(self, record: BlockRecord) -> Progress:
        now = time.perf_counter()
        elapsed, self._before = now - self._before, now
        if record.evaluations:
            returns = [episode.episode_return for episode in record.evaluations]
            self.evaluated = float(np.mean(returns))
        summaries = record.round.summaries
        finished = np.asarray(summaries.finished)

        def mean(column) -> float:
            return (
                float(np.asarray(column)[finished].mean()) if finished.any() else math.nan
            )

        return Progress(
            frames=self.frames,
            total=self.total,
            rate=self.frames_per_block / max(elapsed, 1e-9),
            updates=record.updates,
            returns=[mean(summaries.episode_return)],
            evaluations=[self.evaluated],
            p_X=[mean(summaries.p_X)],
        )

    def replay_report(self) -> str:
        """How much replay holds, and the newest human-normalised score if there is one."""
        report = jax.device_get(tile_report(self.hosted.state.member.replay.contents))
        said = (
            f"replay holds {int(report.observations_held):,} observations at "
            f"{float(report.bytes_per_frame):,.0f} bytes a frame; "
            f"{int(report.blocks_evicted)} blocks left early"
        )
        if self.run.game in SCORES and not math.isnan(self.evaluated):
            score = human_normalised(self.run.game, self.evaluated)
            said += f"; human-normalised score {score:.1%}"
        return said
