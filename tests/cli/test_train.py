"""`sidequest train`, from options to runs; tests/golden trains for real by this command."""

from pathlib import Path

import pytest

from sidequest.cli.train import _next_commands, _train_all, parse_request
from sidequest.config import SMALL, change
from sidequest.errors import Interrupted, MachineError, SidequestError, raise_together
from sidequest.records import IDENTITY, Recorder, read_run
from sidequest.runs.display import Progress, RunProgress
from sidequest.runs.spec import Checkpointing, RunSpec
from sidequest.runs.trainer import _keep_failure
from sidequest.switching.variants import parse
from tests.cli import run

ROWS = {
    "episodes": [{"frames": 10, "return": 1.5, "length": 4, "p_X": 0.1}],
    "evaluations": [{"frames": 10, "return": 2.5, "length": 4}],
    "learning": [{"frames": 10, "loss": 0.5}],
    "bandits": [{"frames": 10, "bandit": "exploit", "arm": 0.1, "probability": 0.25}],
}


def test_evaluations_are_ten_or_as_asked(tmp_path):
    rest = dict.fromkeys(("seeds", "seed", "preset", "emulators", "replay_memory"))
    for frames, settings, interval in (
        ("5", (), 1),
        ("40k", (), 4_000),
        ("1M", (), 50_000),
        ("40k", ("evaluation.interval=30000",), 30_000),
    ):
        (spec,) = parse_request(
            *(("XU-step-level-0.1",), tmp_path),
            game="probe:constant",
            frames=frames,
            set=settings,
            **rest,
        )
        assert spec.config.evaluation.interval == interval


@pytest.mark.parametrize(
    "folders, parent",
    [
        ("runs/a runs/b", "runs"),
        ("runs/a more/b", "."),
        ("runs/a {}/runs/b", "{}/runs"),  # as resumed with `--resume runs/a $PWD/runs/b`
    ],
)
def test_all_runs_of_a_command_have_a_folder_in_common(folders, parent):
    first = RunSpec(parse("XU-step-level-0.1"), "tests:made-up", 0, Path(), SMALL, 1)
    places = map(Path, folders.format(Path.cwd()).split())
    runs = [first._replace(seed=n, folder=place) for n, place in enumerate(places)]
    said = _next_commands(runs, RunProgress(str(first.variant), 0, 1, 0.0, 0.0, 0.0, 0.0))
    assert f"  sidequest figures {parent.format(Path.cwd())}\n" in said


def test_train(tmp_path, capsys, monkeypatch):
    trained = []

    def finish(runs, display):
        trained.extend(runs)
        assert {(run.memory, run.checkpoints) for run in runs} == {
            (None, Checkpointing(every=2_000))
        }
        for spec in runs:
            said = {name: getattr(spec, name) for name in IDENTITY}
            said["variant"] = str(spec.variant)
            recorder = Recorder(spec.folder, said)
            for table, rows in ROWS.items():
                recorder.write(table, rows)
            recorder.finish()
        scores = [
            RunProgress(str(spec.variant), spec.seed, 4_000, 1.5, score, 0.1, 0.02)
            for score, spec in enumerate(runs)
        ]
        display.show(Progress(scores, 4_000, 4_000, 100.0))

    monkeypatch.setattr("sidequest.runs.trainer.run", finish)
    variants = ["XU-step-level-0.1", "XI-intra(10,informed,p*,X)"]
    code = run(
        *("train", *variants, "--game", "probe:constant", "--seeds", 2, "--seed", 5),
        *("--frames", "4k", "--set", "replay.ratio=1", "--checkpoint-every", "2k"),
        *("--quiet", "--tensorboard", "--out", tmp_path),
    )
    assert code == 0
    assert [(str(spec.variant), spec.seed) for spec in trained] == [
        (variant, seed) for variant in variants for seed in (5, 6)
    ]
    changes = {"replay.ratio": 1.0, "evaluation.interval": 400}  # ten evaluations
    assert {spec.config for spec in trained} == {change(SMALL, **changes)}
    assert {(spec.game, spec.frames) for spec in trained} == {("probe:constant", 4_000)}
    said = capsys.readouterr()
    folders = said.out.split()
    best = "XI-intra(10,informed,p*,X)             6     4k     1.5       3    0.1    0.02"
    assert said.err.splitlines()[3] == best
    assert f"sidequest watch {folders[3]}\n" in said.err
    assert f"sidequest figures {tmp_path}\n" in said.err
    assert folders == [str(spec.folder) for spec in trained]
    for folder in map(Path, folders):
        assert folder.is_relative_to(tmp_path) and read_run(folder)["finished"]
        (events,) = (folder / "tensorboard").iterdir()
        assert events.stat().st_size > 300


def test_a_group_that_fails_does_not_keep_others_from_training(
    tmp_path, capsys, monkeypatch
):
    """Runs of two lengths, as when they are resumed together, are two groups."""
    variant = parse("XU-step-level-0.1")
    runs = [
        RunSpec(variant, "probe:constant", 0, tmp_path / str(frames), SMALL, frames)
        for frames in (2_000, 4_000)
    ]

    def train(group, display):
        for spec in group:
            if spec.frames == 2_000:
                raise MachineError("the server is down")
            said = {name: getattr(spec, name) for name in IDENTITY}
            Recorder(spec.folder, {**said, "variant": str(variant)}).finish()

    monkeypatch.setattr("sidequest.runs.trainer.run", train)
    with pytest.raises(MachineError, match="^the server is down$"):
        _train_all(runs, quiet=True, tensorboard=False)
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{tmp_path / '4000'}\n", "the server is down\n")


@pytest.mark.parametrize("by_run", [False, True])
def test_what_ended_a_group_is_said_once_before_the_next_is_interrupted(
    tmp_path, capsys, monkeypatch, by_run
):
    """What ended all of several runs was never said if a signal came later."""
    runs = [
        RunSpec(parse("XU-step-level-0.1"), "probe:constant", seed, tmp_path, SMALL, frames)
        for frames in (2_000, 4_000)
        for seed in (0, 1)
    ]

    def train(group, display):
        if group[0].frames == 4_000:
            raise Interrupted("saved")
        failures: list[SidequestError] = []
        with _keep_failure(failures, display if by_run else None):
            raise MachineError("no memory")
        raise_together(failures)

    monkeypatch.setattr("sidequest.runs.trainer.run", train)
    with pytest.raises(Interrupted, match="^saved"):
        _train_all(runs, quiet=True, tensorboard=False)
    assert capsys.readouterr().err == "no memory\n"
