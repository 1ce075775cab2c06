"""Trains one agent on emulators, from building them to finished records."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from sidequest.config import Config
from sidequest.environments.base import EnvironmentSpec, HostedEnvironment, HostedGame
from sidequest.errors import Interrupted
from sidequest.records import Recorder
from sidequest.runs.account import Account
from sidequest.runs.assembly import assemble
from sidequest.runs.breakdown import refuse_not_finite, report_breakdown
from sidequest.runs.checkpoint import Snapshot
from sidequest.runs.emulators import (
    Construction,
    build_politely,
    choose_groups,
    choose_threads,
)
from sidequest.runs.hosted import BlockRecord, HostedRun
from sidequest.runs.keys import EVALUATION
from sidequest.runs.members import member_of
from sidequest.runs.memory import describe_replay, replay_memory, tiled
from sidequest.runs.pace import pace_of
from sidequest.runs.process import StopSignal
from sidequest.runs.resume import (
    Standing,
    describe_run,
    find_standing,
    reopen,
)
from sidequest.runs.resume_hosted import (
    fit_saved,
    go_on,
    like_saved,
    pace_from,
    saved_counters,
    saved_state,
)
from sidequest.runs.saving import Saver, leave_behind
from sidequest.runs.spec import Checkpointing, Display, RunSpec, identity
from sidequest.runs.state import Individual, individuals
from sidequest.runs.watchdog import Guarded
from sidequest.switching.variants import Variant


class Plan(NamedTuple):
    """How a run on emulators uses the machine."""

    groups: int
    evaluators: int
    """Emulators that play greedily beside training."""
    memory: int
    """Bytes for the frames in replay."""


def make_plan(
    config: Config, spec: EnvironmentSpec, variants: Sequence[Variant], memory: int | None
) -> Plan:
    """Groups of one size, and as much replay as is asked for or fits the device."""
    groups = choose_groups(config.acting.streams)
    memory = replay_memory(config, spec, variants, memory)
    return Plan(groups, config.evaluation.episodes, memory)


def train_hosted(
    run: RunSpec,
    game: HostedGame,
    display: Display,
    memory: int | None,
    saving: Checkpointing,
    interrupts: StopSignal | None = None,
) -> None:
    """Trains one agent, or goes on with a run cut off."""
    config, frames = run.config, run.frames
    plan, pace = make_plan(config, game.spec, [run.variant], memory), pace_of(config)
    parts = assemble(config, game.spec, [run.variant], tiled(plan.memory))
    individual = member_of(individuals([run], parts, config), 0)
    like = like_saved(parts, individual, plan.groups)
    standing = find_standing(run, like, display.say, fit=fit_saved, on_device=True)
    said = describe_run(run, pace, memory=plan.memory)
    recorder = reopen(standing, said, display.say)
    display.say(describe_replay(parts, plan.memory))
    groups, evaluator = build_all(game, plan, parts.streams, standing, display)
    try:
        hosted = HostedRun(
            parts, pace_from(standing, pace), groups, evaluator, plan.evaluators
        )
        account = Account(run, config, hosted, frames)
        begin(hosted, account, standing, individual)
        display.say("compiling with the first block …")
        with Saver(
            [run.folder], saving.interval(frames), display, standing.frames
        ) as saver:
            keeper = Keeper(identity(run), hosted, account, recorder, saver, saving.replay)
            keeper.play(display, interrupts or StopSignal())
        finish(hosted, account, recorder, display)
    finally:
        for open_thing in (*groups, evaluator, recorder):
            open_thing.close()


def build_all(
    game: HostedGame, plan: Plan, streams: int, standing: Standing, display: Display
) -> tuple[list[Guarded], Guarded]:
    """Groups for training and one for evaluation; a run that goes on has other starts."""
    name = standing.run.game
    seed, size = (standing.run.seed + standing.frames) % 2**31, streams // plan.groups
    display.say(
        f"building {plan.groups} groups of {size} emulators of {name}, and one of "
        f"{plan.evaluators} to evaluate …"
    )
    site = Construction(display, streams + plan.evaluators)

    def build(**size: int) -> Sequence[HostedEnvironment]:
        return build_politely(partial(game.build, **size, progress=site.part()))

    threads = choose_threads(plan.groups)
    groups = build(groups=plan.groups, streams=size, seed=seed, threads=threads)
    (evaluator,) = build(
        groups=1, streams=plan.evaluators, seed=seed + EVALUATION, threads=2
    )
    return [Guarded(group, name) for group in groups], Guarded(evaluator, name)


def begin(
    hosted: HostedRun, account: Account, standing: Standing, individual: Individual
) -> None:
    """From the start, or from a checkpoint."""
    if standing.manifest is None:
        hosted.start(individual)
    else:
        go_on(hosted, standing.state, standing.manifest.host)
        account.go_on(standing.manifest.host["account"])


class Keeper(NamedTuple):
    """Plays a run block by block, and keeps it safe."""

    identity: dict[str, Any]
    hosted: HostedRun
    account: Account
    recorder: Recorder
    saver: Saver
    with_replay: bool

    def play(self, display: Display, interrupts: StopSignal) -> None:
        """To the run's end; raises `Interrupted` or `Diverged` if it comes before."""
        account = self.account
        for record in self.hosted:
            before = account.frames
            display.show(account.write(self.recorder, record))
            self.refuse_breakdown(record)
            if account.frames >= account.total:
                return
            if interrupts.requested:
                self.saver.save_now(self.snapshot)
                raise Interrupted(f"saved at {account.frames:,} frames")
            if self.saver.is_due(before, account.frames):
                self.saver.save(self.snapshot)

    def snapshot(self) -> dict[Path, Snapshot]:
        """All of the run between two blocks; small enough ones are copied to the host."""
        learner = self.hosted.state.member.learner
        refuse_not_finite(self.recorder.folder, learner)
        counters = saved_counters(self.hosted, self.with_replay)
        return {
            self.recorder.folder: Snapshot(
                run=self.identity,
                frames=self.account.frames,
                host={**counters, "account": self.account.host()},
                records=self.recorder.sizes(),
                state=saved_state(self.hosted, self.with_replay),
            )
        }

    def refuse_breakdown(self, record: BlockRecord) -> None:
        if self.account.skips.is_breakdown:
            metrics = jax.tree.map(
                lambda leaf: np.asarray(leaf)[None], record.round.metrics
            )
            member = self.hosted.state.member
            steps = member.replay.contents.rest  # all but frames, which are always finite
            raise report_breakdown(
                self.recorder.folder,
                self.account.frames,
                self.account.skips,
                metrics,
                jax.device_get({"learner": member.learner, "replay": steps}),
            )


def finish(
    hosted: HostedRun, account: Account, recorder: Recorder, display: Display
) -> None:
    """Tells what replay holds, and leaves behind what is kept."""
    display.say(account.replay_report())
    q_function = hosted.state.member.learner.q_function
    leave_behind(recorder, q_function, seconds=account.seconds, frames=account.frames)
