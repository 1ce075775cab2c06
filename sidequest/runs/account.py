"""The host's account of a run on emulators: rows for tables, numbers for a display."""

import math
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Int

from sidequest.config import Config
from sidequest.environments.scores import SCORES, human_normalised
from sidequest.records import Recorder, plain
from sidequest.replay.tiles import tile_report
from sidequest.runs.assembly import arms_of
from sidequest.runs.breakdown import Skips
from sidequest.runs.display import ProgressMeter
from sidequest.runs.hosted import BlockRecord, HostedRun
from sidequest.runs.spec import Progress, RunSpec
from sidequest.runs.tables import Clock, RunLog


class Account:
    """Turns the records of blocks into rows and into what a display shows."""

    def __init__(self, run: RunSpec, config: Config, hosted: HostedRun, total: int):
        self.run, self.hosted, self.total = run, hosted, total
        self.frames = 0
        self.log = RunLog(
            run.variant,
            arms_of(config.switching),
            tuple(head.name for head in hosted.parts.rules.heads),
            total // config.evaluation.traces,
        )
        self.skips = Skips()
        self.meter = ProgressMeter(run.game, 1, total)
        self._held: Int[Array, ""] | None = None  # blocks in replay, on their way here
        self._earlier = 0.0  # seconds of the run before it went on here
        self._begin = self._before = time.perf_counter()

    def host(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return plain(
            {
                "frames": self.frames,
                "evaluated": self.meter.evaluations[0],
                "seconds": self.seconds,
                "trace": self.log.traces.snapshot(),
            }
        )

    def go_on(self, host: Mapping[str, Any]) -> None:
        """From what was kept; the episode that the trace was in is gone."""
        self.frames, self._earlier = host["frames"], host["seconds"]
        if host["evaluated"] is not None:
            self.meter.evaluations[0] = host["evaluated"]
        self.log.traces.restore(host["trace"])
        self.log.traces.drop_open_episode()

    @property
    def seconds(self) -> float:
        return self._earlier + time.perf_counter() - self._begin

    @property
    def frames_per_block(self) -> int:
        parts = self.hosted.parts
        frames = self.hosted.groups[0].spec.frames_per_step
        return parts.streams * parts.block_length * frames

    def write(self, recorder: Recorder, record: BlockRecord) -> Progress:
        """Writes what one block left behind; returns what a display shows."""
        clock = Clock(
            record.block * self.frames_per_block,
            self.hosted.parts.streams,
            self.hosted.groups[0].spec.frames_per_step,
        )
        self.frames = (record.block + 1) * self.frames_per_block
        rounds = jax.tree.map(lambda leaf: np.asarray(leaf)[None], record.round)
        self.skips = self.skips.after(rounds.metrics)
        played = (
            (one.began * self.frames_per_block, one.episode_return, one.length)
            for one in record.evaluations
        )
        rows = self.log.rows(rounds, clock, record.updates - self.skips.total, played)
        for table, new in rows.items():
            recorder.write(table, new)
        now = time.perf_counter()
        elapsed, self._before = now - self._before, now
        return self.meter.update(
            [rows],
            frames=self.frames,
            new_frames=self.frames_per_block,
            seconds=elapsed,
            updates=record.updates,
            replay_fill=self._replay_fill(),
        )

    def _replay_fill(self) -> float:
        """The share of replay's capacity in use, when this was last called.

        To wait for the device would hold the emulators up; by the next block its answer
        has arrived.
        """
        replay = self.hosted.state.member.replay
        known, self._held = self._held, replay.added - replay.oldest
        self._held.copy_to_host_async()
        if known is None:
            return math.nan
        return int(known) / self.hosted.parts.replay.ring.blocks

    def replay_report(self) -> str:
        """How much replay holds, and the newest human-normalised score if there is one."""
        report = jax.device_get(tile_report(self.hosted.state.member.replay.contents))
        said = (
            f"replay holds {int(report.observations_held):,} observations at "
            f"{float(report.bytes_per_frame):,.0f} bytes a frame; "
            f"{int(report.blocks_evicted)} blocks left early"
        )
        (evaluated,) = self.meter.evaluations
        if self.run.game in SCORES and not math.isnan(evaluated):
            score = human_normalised(self.run.game, evaluated)
            said += f"; human-normalised score {score:.1%}"
        return said
