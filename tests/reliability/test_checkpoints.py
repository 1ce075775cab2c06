"""Checkpoints that are torn, flipped, forged or of another run are never believed."""

import hashlib
import io
import json
import os
import pickle
import resource
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sidequest.errors import NoCheckpoint, OtherRun
from sidequest.runs import checkpoint, shards
from sidequest.runs.checkpoint import (
    FOLDER,
    MANIFEST,
    SCHEMA,
    Snapshot,
    find_resume_point,
    read_manifest,
    sealed,
)
from tests.reliability.harness import specs

RUN = {"variant": "XU-step-level-0.1", "game": "tests:bargains", "seed": 0, "frames": 9}
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
    monkeypatch.setattr(shards, "PIECE", 100)
    monkeypatch.setattr(shards, "SHARD", 250)


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
    names = {file.name for file in path.iterdir()}
    assert {MANIFEST, "shard-0000.npz", "shard-0001.npz"} <= names
    # NumPy opens it, too, without a pickle; zeros are not there.
    with np.load(path / "shard-0000.npz", allow_pickle=False) as shard:
        assert all(entry.split("-")[0] != "0" for entry in shard)


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
    with pytest.raises(
        NoCheckpoint, match="none of its checkpoints.*--fresh sets"
    ) as fault:
        find_resume_point(spec, LIKE, lambda _: None)
    assert fault.value.exit_code == 66


def test_case_06_what_a_killed_writer_left_is_not_read_and_goes(tmp_path):
    write(tmp_path, 1)
    left = tmp_path / FOLDER / ".part-000000000002"
    left.mkdir()
    (left / "shard-0000.npz").write_bytes(b"half")
    assert newest(tmp_path)[0].frames == 1
    write(tmp_path, 2)
    assert not left.exists()
    assert newest(tmp_path)[0].frames == 2


class Payload:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


def forge(path: Path, **files: bytes) -> None:
    """Replaces files, with a manifest whose digests are right."""
    manifest = read_manifest(path)
    content = json.loads((path / MANIFEST).read_bytes())["manifest"]
    for name, data in files.items():
        name = name.replace("_", "-") + ".npz"
        (path / name).write_bytes(data)
        content["files"][name]["size"] = len(data)
        content["files"][name]["sha256"] = hashlib.sha256(data).hexdigest()
    assert manifest.files
    (path / MANIFEST).write_bytes(sealed(content))


def archive(path: Path, entries: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path.read_bytes()


def entries_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def test_case_26_nothing_is_unpickled(tmp_path):
    (path,) = write(tmp_path, 1)
    canary = tmp_path / "canary"
    hostile = pickle.dumps(Payload(canary))
    entries = entries_of(path / "shard-0000.npz")
    objects = np.array([Payload(canary)], dtype=object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    for data in (hostile, (tmp_path / "objects.npy").read_bytes()):
        forged = archive(tmp_path / "x.zip", dict.fromkeys(entries, data))
        forge(path, shard_0000=forged)
        found, said = newest(tmp_path)
        assert found is None and "shard-0000" in said[0] or "-0.npy" in said[0]
        forge(path, shard_0000=hostile)
        assert newest(tmp_path)[0] is None
    assert not canary.exists()


def header(shape, dtype="<i4") -> bytes:
    out = io.BytesIO()
    described = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, described)
    return out.getvalue()


def test_case_27_hostile_archives_are_refused_before_memory_is_taken(tmp_path):
    (path,) = write(tmp_path, 1)
    entries = entries_of(path / "shard-0000.npz")
    first = next(iter(entries))
    others = {entry: body for entry, body in entries.items() if entry != first}
    bomb = header((2**24,)) + bytes(64 * 2**20)
    hostile = [
        (first, header((2**40,)) + b"1234", zipfile.ZIP_STORED),
        (first, bomb, zipfile.ZIP_DEFLATED),
        (first, b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_535, zipfile.ZIP_STORED),
        ("../../escaped.npy", entries[first], zipfile.ZIP_STORED),
    ]
    archives = [
        archive(tmp_path / "x.zip", {name: data, **others}, compression)
        for name, data, compression in hostile
    ]
    assert len(archives[1]) < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for forged in archives:
        forge(path, shard_0000=forged)
        found, said = newest(tmp_path)
        assert found is None and said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB
    assert not list(tmp_path.parent.rglob("escaped*"))


def test_case_27_names_of_files_lead_nowhere_else(tmp_path):
    (path,) = write(tmp_path, 1)
    content = json.loads((path / MANIFEST).read_bytes())["manifest"]
    (tmp_path / "outside.npz").write_bytes((path / "shard-0000.npz").read_bytes())
    content["files"]["../../outside.npz"] = content["files"].pop("shard-0000.npz")
    (path / MANIFEST).write_bytes(sealed(content))
    found, said = newest(tmp_path)
    assert found is None and "is missing" in said[0]


@pytest.mark.parametrize(
    "key, value", [("seed", 1), ("game", "probe:constant"), ("learning.n_step", 3)]
)
def test_case_28_a_checkpoint_of_another_run_is_refused(tmp_path, key, value):
    write(tmp_path, 1, run=RUN | {key: value})
    with pytest.raises(OtherRun, match=f"{key} is {value}, here") as fault:
        newest(tmp_path, run=RUN)
    assert fault.value.exit_code == 2


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
    content = json.loads((path / MANIFEST).read_bytes())["manifest"]
    (path / MANIFEST).write_bytes(sealed(content | {"schema": 0}))
    found, (said,) = newest(tmp_path)
    assert found is None and f"schema 0; this version reads {SCHEMA}" in said


def test_tables_cut_short_lead_to_an_older_checkpoint(tmp_path):
    write(tmp_path, 1)
    table = tmp_path / "episodes.jsonl"
    table.write_text("one row\n")
    size = {"episodes": table.stat().st_size}
    checkpoint.write(tmp_path, Snapshot(RUN, 2, {}, size, TREE))
    assert newest(tmp_path, run=RUN)[0].frames == 2
    table.write_text("one")
    found, (said,) = newest(tmp_path, run=RUN)
    assert found.frames == 1 and "episodes.jsonl was cut short" in said


def test_parameters_of_a_stranger_are_read_with_suspicion(tmp_path):
    path = tmp_path / checkpoint.PARAMETERS
    like = {"a": jax.ShapeDtypeStruct((2,), np.float32)}
    np.savez(path, **{"['a']": np.array([Payload(tmp_path / "canary")], object)})
    with pytest.raises(ValueError, match="another network, or damaged"):
        checkpoint.load(path, like)
    archive(path, {"['a'].npy": header((2**40,), "<f4")})
    with pytest.raises(ValueError, match=r"expected float32\(2,\)"):
        checkpoint.load(path, like)
    assert not (tmp_path / "canary").exists()
