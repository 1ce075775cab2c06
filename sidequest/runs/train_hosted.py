"""Trains one agent on emulators, from building them to finished records."""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from sidequest.config import Config, ConfigError, check
from sidequest.environments.base import HostedEnvironment, HostedGame
from sidequest.environments.scores import SCORES, human_normalised
from sidequest.replay.tiles import tile_report, tile_store
from sidequest.runs import checkpoint, tables
from sidequest.runs.assembly import arms_of, assemble
from sidequest.runs.emulators import build_politely
from sidequest.runs.hosted import BlockRecord, HostedRun
from sidequest.runs.ondevice import pace_of
from sidequest.runs.population import individuals
from sidequest.runs.records import Recorder
from sidequest.runs.spec import Display, Progress, RunSpec
from sidequest.runs.train import describe_run

LEAST_GROUPS, MOST_GROUPS = 3, 8  # in flight: one acted on, one sent off, one at work
EVALUATORS = 4  # emulators that play greedily beside training
REPLAY_SHARE = 0.6  # of the device's memory, if no budget is given
REPLAY_WITHOUT_LIMIT = 2 * 10**9  # bytes, on a device that does not say what it has


class Plan(NamedTuple):
    """How a run on emulators uses the machine."""

    groups: int
    memory: int
    """Bytes for the frames in replay."""


def make_plan(streams: int, memory: int | None) -> Plan:
    """Groups of one size, and as much replay as is asked for or fits the device."""
    fitting = [n for n in range(LEAST_GROUPS, MOST_GROUPS + 1) if streams % n == 0]
    if not fitting:
        raise ConfigError(
            f"acting.streams is {streams}; emulators go in {LEAST_GROUPS} to {MOST_GROUPS} "
            f"groups of one size, so it is a multiple of one of these numbers"
        )
    groups = max(fitting)
    if memory is None:
        limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
        memory = int(REPLAY_SHARE * limit) if limit else REPLAY_WITHOUT_LIMIT
    return Plan(groups, memory)


def train_hosted(
    run: RunSpec,
    game: HostedGame,
    config: Config,
    frames: int,
    display: Display,
    memory: int | None = None,
) -> None:
    """Trains one agent for `frames` emulator frames."""
    check(config)
    plan, pace = make_plan(config.acting.streams, memory), pace_of(config)
    store = tile_store(lambda step: step.observation, memory=plan.memory)
    parts = assemble(config, game.spec, [run.variant], store)
    recorder = Recorder(run.folder, describe_run(run, config, frames, pace))
    display.say(
        f"building {parts.streams + EVALUATORS} emulators of {run.game} in "
        f"{plan.groups} groups; replay may take {plan.memory / 1e9:.1f} GB"
    )
    groups = build(game, plan.groups, parts.streams // plan.groups, run.seed)
    (evaluator,) = build(game, 1, EVALUATORS, run.seed + 0xE7A1)
    hosted = HostedRun(parts, pace, groups, evaluator, EVALUATORS)
    hosted.start(jax.tree.map(lambda leaf: leaf[0], individuals([run], parts, config)))
    display.say("compiling with the first block …")
    account = Account(run, config, hosted, frames)
    for record in hosted:
        account.write(recorder, record)
        display.show(account.progress(record))
        if account.frames >= frames:
            break
    display.say(account.replay_report())
    checkpoint.save(run.folder / checkpoint.PARAMETERS, hosted.state.member.learner.network)
    recorder.finish(seconds=account.seconds, frames_done=account.frames)
    for group in (*groups, evaluator):
        group.close()


def build(
    game: HostedGame, groups: int, streams: int, seed: int
) -> Sequence[HostedEnvironment]:
    return build_politely(partial(game.build, groups=groups, streams=streams, seed=seed))


class Account:
    """Turns the records of blocks into rows and into what a display shows."""

    def __init__(self, run: RunSpec, config: Config, hosted: HostedRun, total: int):
        self.run, self.hosted, self.total = run, hosted, total
        self.arms = arms_of(config.switching)
        self.heads = tuple(head.name for head in hosted.parts.rules.heads)
        self.frames = 0
        self.evaluated = math.nan
        self.traces = tables.TraceSampler(total // config.evaluation.traces)
        self._begin = self._before = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

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
            rate=self.frames_per_block / elapsed,
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
