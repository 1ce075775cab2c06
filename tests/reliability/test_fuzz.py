"""Files that are harmed at random, and command lines that are typed at random.

Whatever happens to a file of a run or a study, a command either gives what it would have
given before, or says what is wrong: nothing is silent, there is no traceback. Everything
follows from one seed, so that a failure can be repeated.
"""

import contextlib
import io
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from sidequest.cli import main
from sidequest.cli.figures import read_and_warn
from sidequest.config import SMALL, flatten
from sidequest.environments import registry
from sidequest.errors import Interrupted
from sidequest.figures.data import read_records
from sidequest.records import write_failures
from sidequest.runs import checkpoint, trainer
from sidequest.runs.checkpoint import listed, portable
from sidequest.study import studies
from sidequest.study.scheduler import write_plan
from sidequest.study.studies import Grid, Study, jobs_of
from tests.reliability.harness import (
    CHUNK,
    CONFIG,
    EVERY_CHUNK,
    GAME,
    VARIANT,
    Watcher,
    train,
)
from tests.runs.tiny import bargains

SEED = 19
CHANGED = {
    name: value for name, value in flatten(CONFIG).items() if value != flatten(SMALL)[name]
}
STUDY = Study(
    *("fuzz", "A study", (Grid((VARIANT,), (GAME,)),), 3, 4 * CHUNK, "small"),
    tuple(CHANGED.items()),
)


class Said(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


def call(*arguments: str | Path) -> Said:
    """Calls the command in this process. An exception that escapes is a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(map(str, arguments)))
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


class Resumed(Exception):
    """The runs that would have trained from here on."""


def as_bytes(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(portable(tree))]


class Good(NamedTuple):
    """A study as it was left, and what commands say of it."""

    folder: Path
    runs: list[Path]
    """Relative to the folder: two have finished, the third was interrupted."""
    states: dict[int, list[bytes]]
    """The state in each checkpoint of the third, by its frames."""
    tables: dict[int, dict[str, bytes]]
    """The tables at each checkpoint."""
    said: dict[tuple[str, int], Said]
    """What `expected` has seen so far, by command and run."""


COMMANDS = ("resume", "evaluate", "watch", "figures", "study")


def command(name: str, folder: Path, run: Path) -> list[str | Path]:
    return {
        "resume": ["train", "--quiet", "--resume", folder / run],
        "evaluate": ["evaluate", folder / run, "--episodes", "2", "--json"],
        "watch": [
            *("watch", folder / run, "--max-steps", "3", "--greedy"),
            *("--out", folder / "film.gif"),
        ],
        "figures": ["figures", folder, "--only", "scores"],
        "study": ["study", "fuzz", "--out", folder, "--quiet"],
    }[name]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._registered, GAME, bargains)
        jobs = jobs_of(STUDY)
        specs = [job.spec_in(folder) for job in jobs]
        train(specs[:2], Watcher(), EVERY_CHUNK)
        with pytest.raises(Interrupted):
            train(specs[2:], Watcher(stop_after=3), EVERY_CHUNK)
        write_plan(folder, STUDY, jobs)
        write_failures(folder, {"some-run": "no memory"}, ["Traceback"])
        third, states, tables = specs[2].folder, {}, {}
        program, _ = trainer._make_programs([specs[2]], Watcher())[0]
        for path in listed(third):
            manifest = checkpoint.read_manifest(path)
            state = checkpoint.restore(manifest, program.state_spec)
            states[manifest.snapshot.frames] = as_bytes(state)
            tables[manifest.snapshot.frames] = {
                table: (third / f"{table}.jsonl").read_bytes()[: digest.size]
                for table, digest in manifest.snapshot.records.items()
            }
    assert len(states) == 2
    return Good(folder, [job.spec.folder for job in jobs], states, tables, {})


def expected(good: Good, name: str, run: int) -> Said:
    """What a command says of a run that is as it was left; run 3 is the third with its
    older checkpoint only."""
    if (name, run) not in good.said:
        with contextlib.ExitStack() as stack:
            if run == 3:
                newest = listed(good.folder / good.runs[2])[0]
                aside = shutil.move(newest, good.folder.parent / newest.name)
                stack.callback(shutil.move, aside, newest)
            good.said[name, run] = call(*command(name, good.folder, good.runs[min(run, 2)]))
        assert good.said[name, run].code == 0
    return good.said[name, run]


# Ways to harm a file


def flip_a_bit(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def change_bytes(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(dice.randint(1, 20)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data)


def zero_a_block(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data) or 1)
    data[start : start + 512] = bytes(len(data[start : start + 512]))
    path.write_bytes(data)


def cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size or 1))


def empty(path: Path, dice: random.Random) -> None:
    path.write_bytes(b"")


def lengthen(path: Path, dice: random.Random) -> None:
    path.write_bytes(path.read_bytes() + dice.randbytes(dice.randint(1, 200)))


def delete(path: Path, dice: random.Random) -> None:
    path.unlink()


def replace_by_noise(path: Path, dice: random.Random) -> None:
    path.write_bytes(dice.randbytes(dice.randint(1, 5_000)))


def replace_by_another(path: Path, dice: random.Random) -> None:
    """By a file of the same name of another run or checkpoint, or by any file."""
    study = next(one for one in path.parents if one.name.startswith("study"))
    others = [one for one in sorted(study.rglob("*")) if one.is_file() and one != path]
    same = [one for one in others if one.name == path.name] or others
    path.write_bytes(dice.choice(same).read_bytes())


def replace_by_json(path: Path, dice: random.Random) -> None:
    values = ({}, [], None, 1, "x", {"runs": []}, {"variant": 1}, {"a": {"b": [1]}})
    path.write_text(json.dumps(dice.choice(values)))


def replace_by_a_folder(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


def replace_by_a_link(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.symlink_to(dice.choice(["nowhere", path.name, "/dev/null", ".."]))


HARMS = (
    *(flip_a_bit, flip_a_bit, flip_a_bit, change_bytes, zero_a_block, cut, empty),
    *(lengthen, delete, replace_by_noise, replace_by_another, replace_by_json),
    *(replace_by_a_folder, replace_by_a_link),
)


def harmed(good: Good, place: Path, dice: random.Random) -> str:
    """Copies the study, harms one of its files, and returns what was done."""
    shutil.copytree(good.folder, place)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.suffix != ".gif":
            kinds.setdefault(path.name, []).append(path)
    victim = dice.choice(kinds[dice.choice(sorted(kinds))])
    harm = dice.choice(HARMS)
    harm(victim, dice)
    return f"{harm.__name__} {victim.relative_to(place)}"


def attack(good: Good, place: Path, number: int, patch: pytest.MonkeyPatch) -> str:
    """Harms one file, runs one command, and checks that nothing was silent."""
    dice = random.Random(f"{SEED} {number}")
    what = harmed(good, place, dice)
    name = COMMANDS[number % len(COMMANDS)]
    run = 2 if name == "resume" else dice.randrange(3)
    points = []

    def note(backend, found, *_):
        points.extend(found)

    patch.setattr(trainer, "_train", note)
    told = f"{number}: {what}, {name} {run}"
    try:
        said = call(*command(name, place, good.runs[run]))
    except BaseException as error:
        raise AssertionError(f"{told}: {error!r}") from error
    assert said.code in (0, 1, 2, 66, 73), (told, said)
    assert said.code == 0 or said.err.strip(), told
    if name in ("evaluate", "watch") and said.code == 0:
        out = said.out.replace(str(place), str(good.folder))
        before = expected(good, name, run)
        if run == 2 and out != before.out:
            assert "cannot be used" in said.err, (told, said)
            before = expected(good, name, 3)
        assert out == before.out, (told, said, before)
    for point in points:
        check_point(good, place, point, told, said)
    if name in ("figures", "study") and said.code == 0:
        begun = {point.spec.folder for point in points if point.snapshot is None}
        check_records(good, place, begun, told, said)
    return f"{name} {said.code}"


def check_point(good: Good, place: Path, point, told: str, said: Said) -> None:
    """A run starts from what was saved, or from the beginning where nothing was."""
    folder = point.spec.folder
    if point.snapshot is None:
        # Its run.json is gone: to the study it is a run that has not begun.
        assert "delete" in told and "run.json" in told, (told, said)
        return
    assert folder == place / good.runs[2], (told, said)
    frames = point.frames
    assert as_bytes(point.snapshot.state) == good.states[frames], told
    for table, rows in good.tables[frames].items():
        assert (folder / f"{table}.jsonl").read_bytes()[: len(rows)] == rows, told
    assert frames == max(good.states) or "cannot be used" in said.err, (told, said)


def check_records(good: Good, place: Path, begun: set[Path], told: str, said: Said) -> None:
    """Runs are drawn as they were, were left out with a line, or began again."""
    before, now = read_records(good.folder), read_records(place)
    for left in now.left_out:
        assert f"left out: {left.reason}" in said.err, (told, said)
    gone = {left.folder for left in now.left_out} | {
        place / run for run in good.runs if not (place / run / "run.json").exists()
    }
    kept = [n for n, run in enumerate(good.runs) if place / run not in gone]
    assert now.runs["seed"].to_list() == kept, (told, said)
    kept = [n for n in kept if place / good.runs[n] not in begun]
    for name in ("evaluations", "episodes", "bandits", "traces"):
        ours, theirs = getattr(now, name), getattr(before, name)
        theirs = theirs.filter(theirs["run"].is_in(kept))
        assert ours.drop("run").equals(theirs.drop("run")), (told, name)


def attack_all(good: Good, place: Path, numbers: range) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._registered, GAME, bargains)
        patch.setitem(studies.STUDIES, "fuzz", STUDY)
        patch.setattr("sidequest.cli.study._write_report", lambda one: read_and_warn(one))
        counted: dict[str, int] = {}
        for number in numbers:
            outcome = attack(good, place / "study", number, patch)
            counted[outcome] = counted.get(outcome, 0) + 1
            shutil.rmtree(place / "study")
    print(counted, file=sys.stderr)


def test_harmed_files(good, tmp_path):
    attack_all(good, tmp_path, range(12))


@pytest.mark.slow
def test_300_harmed_files(good, tmp_path):
    attack_all(good, tmp_path, range(300))
