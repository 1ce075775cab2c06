"""A run that was stopped and resumed equals, bit for bit, one that never stopped."""

import random
import signal
import weakref

import pytest

from sidequest import records
from sidequest.errors import CorruptFile, Interrupted
from sidequest.records import read_run
from sidequest.runs import checkpoint, trainer
from sidequest.runs.ondevice import Population
from sidequest.runs.spec import Checkpointing, read_spec
from tests.reliability import child
from tests.reliability.harness import (
    CHUNK,
    OPTIONS,
    PROCESS_CHUNKS,
    Watcher,
    results,
    run,
    specs,
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(specs(folder, 0, 1))
    return {seed: results(folder / f"seed-{seed}") for seed in (0, 1)}


def test_case_01_the_same_seed_twice(uninterrupted, tmp_path):
    """And alone instead of side by side, without a checkpoint."""
    (alone,) = specs(tmp_path, 1)
    run([alone], checkpoints=Checkpointing(every=10**9))
    assert results(alone.folder) == uninterrupted[1]


@pytest.mark.parametrize("stops", [(2,), pytest.param((2, 1, 2), marks=pytest.mark.slow)])
def test_case_02_stopped_and_resumed(uninterrupted, tmp_path, stops):
    runs = specs(tmp_path, 0, 1)
    for chunks in stops:
        with pytest.raises(Interrupted, match="saved at"):
            run(runs, Watcher(stop_after=chunks))
    watcher = run(runs)
    assert len(watcher.shown) == 6 - sum(stops)
    for seed, one in enumerate(runs):
        assert results(one.folder) == uninterrupted[seed]
        assert not (one.folder / checkpoint.FOLDER).exists()
        assert len(read_run(one.folder)["resumed"]) == len(stops)


def test_a_resumed_run_keeps_no_copy_of_its_checkpoint(tmp_path, monkeypatch):
    (one,) = specs(tmp_path, 0)
    with pytest.raises(Interrupted):
        run([one], Watcher(stop_after=1), chunks=2)
    find, found = trainer.find_resume_point, []

    def find_resume_point(*arguments, **options):
        point = find(*arguments, **options)
        found.append(weakref.ref(point.snapshot.state["run"].replay.priorities))
        return point

    class Looking(Watcher):
        def show(self, progress):
            assert found[0]() is None
            super().show(progress)

    monkeypatch.setattr(trainer, "find_resume_point", find_resume_point)
    assert run([one], Looking(), chunks=2).shown


@pytest.mark.slow
def test_case_02_runs_that_are_not_equally_far(uninterrupted, tmp_path):
    """One resumes alone from its checkpoint, the other begins; both as if together."""
    first, second = specs(tmp_path, 0, 1)
    with pytest.raises(Interrupted):
        run([first], Watcher(stop_after=2))
    watcher = run([first, second])
    assert [progress.frames // CHUNK for progress in watcher.shown] == [
        *(3, 4, 5, 6),
        *(1, 2, 3, 4, 5, 6),
    ]
    assert results(first.folder) == uninterrupted[0]
    assert results(second.folder) == uninterrupted[1]


def test_a_run_without_a_good_checkpoint_does_not_keep_others_from_training(
    uninterrupted, tmp_path
):
    runs, watcher = specs(tmp_path, 0, 1), Watcher()
    with pytest.raises(Interrupted):
        run(runs, Watcher(stop_after=2))
    for arrays in (runs[0].folder / checkpoint.FOLDER).rglob(checkpoint.ARRAYS):
        arrays.write_bytes(b"")
    with pytest.raises(CorruptFile, match="seed-0") as fault:
        run(runs, watcher)
    assert str(fault.value) in watcher.said
    assert results(runs[1].folder) == uninterrupted[1]
    assert not read_run(runs[0].folder)["finished"]


@pytest.mark.slow
def test_case_24_an_unfinished_line_is_dropped(uninterrupted, tmp_path):
    (one,) = specs(tmp_path, 0)
    with pytest.raises(Interrupted):
        run([one], Watcher(stop_after=3))
    with (one.folder / "episodes.jsonl").open("a") as file:
        file.write('{"run": "x", "frames": 99999}\n{"run": "y", "fra')
    run([one])
    assert results(one.folder) == uninterrupted[0]


@pytest.mark.slow
def test_case_09_terminated_during_an_evaluation(uninterrupted, tmp_path, monkeypatch):
    """It belongs to its chunk, and is finished before the run is saved."""
    runs, watcher, evaluate = specs(tmp_path, 0, 1), Watcher(), Population._evaluate

    def interrupt(population):
        watcher.interrupt()
        return evaluate(population)

    with monkeypatch.context() as patch:
        patch.setattr(Population, "_evaluate", interrupt)
        with pytest.raises(Interrupted, match=f"saved at {2 * CHUNK:,} frames"):
            run(runs, watcher)
    run(runs)
    for seed, one in enumerate(runs):
        assert results(one.folder) == uninterrupted[seed]


@pytest.mark.slow
def test_a_run_cut_off_in_its_last_moment_finishes(uninterrupted, tmp_path, monkeypatch):
    """Killed while tables became Parquet: the lines are still there, and count."""
    (one,) = specs(tmp_path, 0)
    write_json = records.write_json

    def die_at_the_end(path, content, **how):
        if content.get("finished"):
            raise KeyboardInterrupt
        write_json(path, content, **how)

    with monkeypatch.context() as patch:
        patch.setattr(records, "write_json", die_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            run([one])
    assert (one.folder / "episodes.parquet").exists()
    assert (one.folder / "episodes.jsonl").exists()
    run([one])
    assert results(one.folder) == uninterrupted[0]


def stop_and_resume(folder, stops):
    """Sends signals some seconds after the command began to play, then lets it finish."""
    arguments = ["train", *OPTIONS, "--out", str(folder)]
    codes = []
    for moment, number in stops:
        process = child.start(*arguments)
        child.stop(process, moment, number)
        codes.append(process.returncode)
        left = child.unfinished(folder)
        if not left:
            break
        arguments = ["train", "--resume", *left, "--quiet"]
    (path,) = folder.rglob("run.json")
    run([read_spec(path.parent)], chunks=PROCESS_CHUNKS)
    return codes, [results(path.parent)]


def test_cases_05_and_07_killed_and_then_terminated(uninterrupted_process, tmp_path):
    moment = random.Random(5).uniform(0.0, 0.3)
    stops = [(moment, signal.SIGKILL), (0.1, signal.SIGTERM)]
    codes, found = stop_and_resume(tmp_path, stops)
    assert codes == [-signal.SIGKILL, 75]
    assert found == uninterrupted_process


@pytest.mark.slow
def test_case_05_killed_twenty_times(uninterrupted_process, tmp_path):
    dice = random.Random(20)
    stops = [(dice.uniform(0.0, 0.3), signal.SIGKILL) for _ in range(20)]
    codes, found = stop_and_resume(tmp_path, stops)
    assert codes.count(-signal.SIGKILL) >= 3
    assert found == uninterrupted_process


@pytest.mark.slow
def test_case_08_terminated_while_compiling(tmp_path):
    arguments = ["train", *OPTIONS, "--out", str(tmp_path)]
    process = child.start(*arguments, cache=tmp_path / "empty")
    said = child.stop(process, 0.5, signal.SIGTERM, since="compiling")
    assert process.returncode == 75, said
    assert "resume with: sidequest train --resume" in said
    assert len(child.unfinished(tmp_path)) == 1


@pytest.mark.slow
def test_case_10_a_second_signal_leaves_at_once(tmp_path):
    arguments = ["train", *OPTIONS, "--out", str(tmp_path)]
    process = child.start(*arguments, cache=tmp_path / "empty")
    said = child.stop(process, 0.5, signal.SIGINT, signal.SIGINT, since="compiling")
    assert process.returncode == 128 + signal.SIGINT
    assert "exited at once" in said


FAMILIES = [
    *("XU-intra(10,blind,n*,G)", "XU-intra(*,blind,0.1,X)", "XI-intra(*,informed,p*,X)"),
    *("XI-intra(=,blind,p*,G)", "XU-intra(10,informed:mismatch,0.1,G)"),
    *("XU-episode-level-*", "XU-step-level-0.1", "XS-intra(10,informed,0.1,G)"),
    *("Xγ-intra(10,blind,10,X)", "XU-experiment-level-X"),
]


@pytest.mark.slow
@pytest.mark.parametrize("variant", FAMILIES)
def test_case_04_every_family_of_variants(tmp_path, variant):
    (whole,) = specs(tmp_path / "whole", 3, variant=variant)
    (parts,) = specs(tmp_path / "parts", 3, variant=variant)
    run([whole], chunks=4)
    with pytest.raises(Interrupted):
        run([parts], Watcher(stop_after=2), chunks=4)
    run([parts], chunks=4)
    assert results(parts.folder) == results(whole.folder)
