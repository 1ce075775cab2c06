"""Checkpoints that are torn, flipped, forged or of another run are never believed."""

import hashlib
import io
import json
import os
import pickle
import resource
import zipfile
import zlib
from collections import namedtuple
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.agent.scaling import Moments
from sidequest.errors import CorruptFile, InvalidRequest
from sidequest.records import seal, take_digest, unseal
from sidequest.runs import arrays, checkpoint
from sidequest.runs.arrays import Piece
from sidequest.runs.checkpoint import (
    ARRAYS,
    FOLDER,
    MANIFEST,
    SCHEMA,
    Snapshot,
    find_resume_point,
)
from sidequest.runs.spec import identity
from tests.reliability.harness import specs

RUN = identity(specs(Path(), 0)[0])
TREE = {
    "key": jax.random.split(jax.random.key(3), 4),
    "ring": np.arange(60, dtype=np.int32).reshape(30, 2),
    "empty": np.zeros((100, 3), np.float32),
    "minus": np.float32(-0.0),
    "half": jnp.arange(40, dtype=jnp.bfloat16),
    "none": np.zeros((0, 3), np.float32),
    "flags": np.array([True, False]),
}
LIKE = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, TREE))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", 100)


def write(folder: Path, *frames: int, tree=TREE, run=RUN, **more) -> list[Path]:
    """Checkpoints of a run, oldest first; each knows its own number."""
    folder.mkdir(exist_ok=True)
    for count in frames:
        own = tree | {"ring": tree["ring"] + np.int32(count)}
        checkpoint.write(folder, Snapshot(run, count, {"block": count}, {}, own))
    return checkpoint.listed(folder)[::-1]


def newest(folder, like=LIKE, **how):
    said: list[str] = []
    found = checkpoint.newest(folder, like, said.append, **how)
    return found, said


def as_bytes(leaf) -> bytes:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


@pytest.mark.parametrize("on_device", [False, True])
def test_what_is_read_is_what_was_written(tmp_path, on_device):
    (path,) = write(tmp_path, 0)
    found, said = newest(tmp_path, on_device=on_device)
    assert not said
    for name, leaf in found.state.items():
        assert leaf.dtype == TREE[name].dtype and leaf.shape == TREE[name].shape
        assert as_bytes(leaf) == as_bytes(TREE[name])
    assert {file.name for file in path.iterdir()} == {MANIFEST, ARRAYS}
    content = unseal(json.loads((path / MANIFEST).read_bytes()))
    names = [leaf["path"] for leaf in content["state"]]
    written = {names[number] for number, *_ in content["pieces"]}
    # Zeros are not there, but a negative zero is.
    assert written == {f"[{name!r}]" for name in TREE.keys() - {"empty", "none"}}
    assert len(content["pieces"]) > len(written)


def test_the_same_state_gives_the_same_bytes(tmp_path):
    (one,), (other,) = write(tmp_path / "a", 5), write(tmp_path / "b", 5)
    for file in one.iterdir():
        assert file.read_bytes() == (other / file.name).read_bytes()


def test_only_the_newest_are_kept(tmp_path):
    write(tmp_path, 1, 2, 3)
    checkpoint.prune(tmp_path, [2, 3])
    assert [int(path.name) for path in checkpoint.listed(tmp_path)] == [3, 2]


def test_case_18_every_flipped_bit_is_noticed(tmp_path):
    write(tmp_path, 1, 2)
    victim = checkpoint.listed(tmp_path)[0]
    dice = np.random.default_rng(18)
    for file in sorted(victim.iterdir()):
        whole = file.read_bytes()
        for position in dice.integers(0, 8 * len(whole), 50):
            flipped = bytearray(whole)
            flipped[position // 8] ^= 1 << position % 8
            file.write_bytes(flipped)
            found, said = newest(tmp_path)
            assert found and found.frames == 1, (file.name, position)
            assert file.name in said[0] or "schema" in said[0]
        file.write_bytes(whole)
    assert newest(tmp_path)[0].frames == 2


@pytest.mark.parametrize("harm", ["cut", "empty", "missing", "longer"])
def test_case_19_files_cut_short_or_gone(tmp_path, harm):
    write(tmp_path, 1, 2)
    victim = checkpoint.listed(tmp_path)[0]
    for file in sorted(victim.iterdir()):
        whole = file.read_bytes()
        if harm == "missing":
            file.unlink()
        else:
            file.write_bytes(
                {"cut": whole[:-7], "empty": b"", "longer": whole + b"x"}[harm]
            )
        found, said = newest(tmp_path)
        assert found and found.frames == 1 and file.name in said[0]
        file.write_bytes(whole)


def test_case_20_a_run_without_a_good_checkpoint_is_not_begun_anew(tmp_path):
    (spec,) = specs(tmp_path, 0)
    for path in write(spec.folder, 1, 2):
        (path / MANIFEST).write_text("{}")
    with pytest.raises(CorruptFile, match="none of its checkpoints.*--fresh sets") as fault:
        find_resume_point(spec, LIKE, lambda _: None)
    assert fault.value.exit_code == 66


def test_case_06_what_a_killed_writer_left_is_not_read_and_goes(tmp_path):
    write(tmp_path, 1)
    left = tmp_path / FOLDER / ".part-000000000002"
    left.mkdir()
    (left / ARRAYS).write_bytes(b"half")
    assert newest(tmp_path)[0].frames == 1
    write(tmp_path, 2)
    assert not left.exists()
    assert newest(tmp_path)[0].frames == 2


class Payload:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


def forge(path: Path, data: bytes, name: str = "['ring']", **changes) -> None:
    """Replaces the first piece of an array, with a manifest whose digests are right."""
    content = unseal(json.loads((path / MANIFEST).read_bytes()))
    names = [leaf["path"] for leaf in content["state"]]
    whole, offset = (path / ARRAYS).read_bytes(), 0
    for number, piece in enumerate(content["pieces"]):
        if names[piece[0]] == name:
            forged = whole[:offset] + data + whole[offset + piece[3] :]
            own = Piece(*piece)._replace(
                size=len(data), sha256=hashlib.sha256(data).hexdigest()
            )
            content["pieces"][number] = own._replace(**changes)
            break
        offset += piece[3]
    (path / ARRAYS).write_bytes(forged)
    (path / MANIFEST).write_bytes(seal(content))


def archive(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)


def test_case_26_nothing_is_unpickled(tmp_path):
    (path,) = write(tmp_path, 1)
    canary = tmp_path / "canary"
    hostile = pickle.dumps(Payload(canary))
    for data in (hostile, zlib.compress(hostile)):
        forge(path, data)
        found, said = newest(tmp_path)
        assert found is None and "array" in said[0]
    assert not canary.exists()


def header(shape, dtype="<i4") -> bytes:
    out = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, described)
    return out.getvalue()


def test_case_27_hostile_pieces_are_refused_before_memory_is_taken(tmp_path):
    (path,) = write(tmp_path, 1)
    bomb = zlib.compress(bytes(64 * 2**20))
    assert len(bomb) < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    good = zlib.compress(np.arange(24, dtype=np.int32).tobytes())
    for data, changes in (
        (bomb, {}),
        (good, {"start": 0, "stop": 2**40}),
        (good, {"start": -12, "stop": 0}),
        (good, {"size": 2**40}),
        (good, {"size": -1}),
        (good[: len(good) // 2], {}),
    ):
        forge(path, data, **changes)
        found, said = newest(tmp_path)
        assert found is None and said
        path = write(tmp_path, 1)[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_case_27_links_are_not_followed(tmp_path):
    (path,) = write(tmp_path, 1)
    os.rename(path / ARRAYS, tmp_path / "outside")
    (path / ARRAYS).symlink_to(tmp_path / "outside")
    found, said = newest(tmp_path)
    assert found is None and ARRAYS in said[0]


@pytest.mark.parametrize(
    "key, value", [("seed", 1), ("game", "probe:constant"), ("learning.n_step", 4)]
)
def test_case_28_a_checkpoint_of_another_run_is_refused(tmp_path, key, value):
    write(tmp_path, 1, run=RUN | {key: value})
    with pytest.raises(InvalidRequest, match=f"{key} is {value}, here") as fault:
        newest(tmp_path, run=RUN)
    assert fault.value.exit_code == 2


def test_a_checkpoint_of_a_version_with_fewer_settings_is_found(tmp_path):
    """Since a setting was added, no run that had begun before could resume."""
    today = RUN | {"learning.trace_tolerance": 0.0}
    former = today | {"acting.streams": RUN["acting.environments"]}
    for name in ("acting.environments", "learning.trace_tolerance"):
        del former[name]
    write(tmp_path, 1, run=former)
    found, said = newest(tmp_path, run=today)
    assert found.frames == 1 and not said


def test_case_28_another_shape_is_refused(tmp_path):
    write(tmp_path, 1)
    for changed in (
        LIKE | {"flags": jax.ShapeDtypeStruct((3,), bool)},
        LIKE | {"more": jax.ShapeDtypeStruct((3,), bool)},
        {name: leaf for name, leaf in LIKE.items() if name != "flags"},
    ):
        found, (said,) = newest(tmp_path, changed)
        assert found is None
        assert "expected" in said or "lacks" in said or "does not have" in said


def test_case_29_another_schema_is_named(tmp_path):
    (path,) = write(tmp_path, 1)
    content = unseal(json.loads((path / MANIFEST).read_bytes()))
    (path / MANIFEST).write_bytes(seal(content | {"schema": 0}))
    found, (said,) = newest(tmp_path)
    assert found is None and f"schema 0; this version reads {SCHEMA}" in said


def test_a_part_of_the_state_that_was_renamed_is_found(tmp_path):
    def run(statistics: str, leaf):
        learner = namedtuple("LearnerState", [statistics])(Moments(leaf, leaf, leaf))
        return {"run": namedtuple("RunState", ["learner"])(learner)}

    state = run("scales", np.arange(3, dtype=np.float32))
    checkpoint.write(tmp_path, Snapshot(RUN, 1, {}, {}, state))
    spec = run("return_statistics", jax.ShapeDtypeStruct((3,), np.float32))
    found, said = newest(tmp_path, spec)
    assert not said
    restored = found.state["run"].learner.return_statistics
    np.testing.assert_array_equal(restored.variance, [0, 1, 2])


def test_tables_cut_short_lead_to_an_older_checkpoint(tmp_path):
    write(tmp_path, 1)
    table = tmp_path / "episodes.jsonl"
    table.write_text("one row\n")
    digest = {"episodes": take_digest(table)}
    checkpoint.write(tmp_path, Snapshot(RUN, 2, {}, digest, TREE))
    assert newest(tmp_path, run=RUN)[0].frames == 2
    table.write_text("one")
    found, (said,) = newest(tmp_path, run=RUN)
    assert found.frames == 1 and "episodes.jsonl was cut short" in said


def test_parameters_of_a_stranger_are_read_with_suspicion(tmp_path):
    path = tmp_path / checkpoint.PARAMETERS
    like = {"a": jax.ShapeDtypeStruct((2,), np.float32)}
    np.savez(path, **{"['a']": np.array([Payload(tmp_path / "canary")], object)})
    with pytest.raises(ValueError, match="another network, or damaged"):
        checkpoint.load(path, path.read_bytes(), like)
    archive(path, {"['a'].npy": header((2**40,), "<f4")})
    with pytest.raises(ValueError, match=r"expected float32\(2,\)"):
        checkpoint.load(path, path.read_bytes(), like)
    assert not (tmp_path / "canary").exists()
