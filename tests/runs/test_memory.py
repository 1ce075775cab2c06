"""What replay gets of a device, and which runs are refused, with made-up machines."""

import jax
import numpy as np
import pytest

from sidequest.cli import main
from sidequest.config import PAPER, change
from sidequest.environments.base import EnvironmentSpec
from sidequest.errors import ConfigError
from sidequest.replay.replay import ReplayState
from sidequest.runs import memory
from sidequest.runs.build import build_agent
from sidequest.runs.memory import (
    describe_replay,
    refuse_too_large,
    replay_memory,
    tiled,
)
from sidequest.runs.state import RunState
from sidequest.switching.variants import parse

ATARI = EnvironmentSpec("made up", (210, 160, 3), np.dtype(np.uint8), 18, maximum=255.0)
PLAIN, NOVEL = parse("XU-step-level-0.01"), parse("XI-intra(10,informed,p*,X)")
FRAME, POINTERS = 210 * 160 * 3, 600 * 2  # bytes
GB = 10**9


class Device:
    def __init__(self, **stats):
        self.stats = stats

    def memory_stats(self):
        return self.stats


@pytest.fixture
def device(monkeypatch):
    device = Device()
    monkeypatch.setattr(memory.jax, "local_devices", lambda: [device])
    return device


def ours(variant=PLAIN, asked=None, config=PAPER) -> int:
    return replay_memory(config, ATARI, [variant], asked)


# 4 blocks of 120 x 40 frames, 18 batches of 64 x 100.
RESERVE = (4 * 120 * 40 + 18 * 64 * 100) * FRAME


def test_replay_gets_what_the_device_has_left(device):
    device.stats = {"bytes_limit": 112 * GB, "bytes_in_use": 2 * GB}
    left = ours()
    # Learner and the rest of replay take some, and no more than a few.
    assert 95 * GB < left < 112 * GB - 2 * GB - RESERVE
    device.stats["bytes_in_use"] += GB
    assert ours() == left - GB
    device.stats["bytes_limit"] += 3 * GB
    assert ours() == left + 2 * GB
    # XI has one more head and the networks of novelty.
    assert left + GB < ours(NOVEL) < left + 2 * GB
    # Runs of both kinds share a number, which must do for each.
    assert replay_memory(PAPER, ATARI, [PLAIN, NOVEL], None) == ours(NOVEL)


def test_the_rest_of_the_agent_is_counted(device):
    device.stats = {"bytes_limit": 112 * GB}
    parts = build_agent(PAPER, ATARI, [PLAIN], tiled(60 * GB))
    learner = jax.eval_shape(parts.learner.init, jax.random.key(0))
    learner = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner))
    observations = 833 * 120 * 40  # 833 whole blocks
    # Beside its frame a step has three numbers and three flags. A block has two vectors of
    # 512 numbers and a priority for each stream; and, for tiles, where they start.
    beside = observations * 15 + 833 * 120 * (2 * 512 * 4 + 4 + 4) + 833 * 4
    left = 112 * GB - RESERVE - 3 * learner - beside
    assert ours() == pytest.approx(left, abs=100)


def test_more_than_the_capacity_can_use_is_not_taken(device):
    device.stats = {"bytes_limit": 10**12}
    small = change(PAPER, **{"replay.capacity": 48_000})
    most = 48_000 * (FRAME + POINTERS)
    assert ours(config=small) == ours(asked=10**11, config=small) == most


def test_what_is_asked_for_is_given(device):
    device.stats = {"bytes_limit": 112 * GB}
    assert ours(asked=40 * GB) == 40 * GB


def test_a_device_that_does_not_say_what_it_has(device):
    small = change(PAPER, **{"replay.capacity": 200_000})
    assert ours(config=small) == 2 * GB


def test_too_little_is_refused_with_what_to_do(device):
    device.stats = {"bytes_limit": 15 * GB}
    with pytest.raises(ConfigError, match=r"replay has .* GB.*learning\.batch_size"):
        ours()
    with pytest.raises(ConfigError, match=r"replay has 1 GB.*--replay-memory"):
        ours(asked=GB)
    # What memory cannot fix is reported as it is.
    with pytest.raises(ValueError, match="^capacity 100 is less than the 14,400 obs"):
        ours(config=change(PAPER, **{"replay.capacity": 100}))


@pytest.mark.parametrize(
    "given, text",
    [
        # Pointers take 3,998,400 x 1,200 bytes. A block of 4,800 frames of 12 kB has
        # 52.3 MB of tiles: 367 blocks fit; at 7 kB it has 28.1 MB: 683.
        (24 * GB, "24.0 GB: about 1,761,600 to 3,278,400 observations"),
        # The whole capacity.
        (68 * GB, "68.0 GB: about 3,998,400 observations"),
    ],
)
def test_how_many_observations_that_is(given, text):
    agent = build_agent(PAPER, ATARI, [PLAIN], tiled(given))
    measured = " at the measured 7.1 to 12 kB each"
    assert describe_replay(agent, given) == f"replay may take {text}{measured}"


def made_of(kind, **fields):
    """A state with nothing in it but these fields."""
    return kind(**(dict.fromkeys(kind._fields) | fields))


def gigabytes(number):
    return jax.ShapeDtypeStruct((number, GB), np.uint8)


# A run of 4 GB, of which 3 GB are replay.
REPLAY = made_of(ReplayState, contents=gigabytes(3))
STATE = made_of(RunState, learner=gigabytes(1), replay=REPLAY)


def give(monkeypatch, host, device=None):
    monkeypatch.setattr(memory, "_free_on_host", lambda: host)
    monkeypatch.setattr(memory, "_free_on_device", lambda: device)
    monkeypatch.setattr(memory, "_own_memory", lambda: GB // 10)


def refusal(runs=3, **more) -> str:
    with pytest.raises(ConfigError) as refused:
        refuse_too_large(STATE, runs, **more)
    return str(refused.value)


def accept(runs=3, **more):
    refuse_too_large(STATE, runs, **more)


def test_on_a_cpu_work_and_checkpoints_are_copies_and_compiling_takes_a_gigabyte(
    monkeypatch,
):
    give(monkeypatch, 37 * GB)
    accept()  # 3 x 4 GB, thrice, and 1
    give(monkeypatch, None)
    accept()  # nobody reports what is free
    give(monkeypatch, 25 * GB)
    assert refusal() == (
        "3 runs need 37.0 GB or more (replay takes 3.0 GB of each), and 25.0 GB of memory "
        "are free; 2 at a time would fit"
    )
    accept(2)
    give(monkeypatch, 7 * GB)
    assert refusal(1) == (
        "this run needs 13.0 GB or more (replay takes 3.0 GB), and 7.0 GB of memory are "
        "free; use less --replay-memory or replay.capacity"
    )
    accept(1, host_copy=2 * GB)  # 4 GB, 2 and 1
    give(monkeypatch, GB)
    assert refusal(1).endswith("1.0 GB of memory are free; compiling alone takes 1.0 GB")
    give(monkeypatch, 12 * GB)
    monkeypatch.setattr(memory, "_own_memory", lambda: 2 * GB)
    accept(1)  # the process has compiled before


def test_on_an_accelerator_copies_are_on_the_host(monkeypatch):
    give(monkeypatch, host=13 * GB, device=12 * GB)
    accept()
    give(monkeypatch, host=13 * GB, device=11 * GB)
    assert "12.0 GB or more" in refusal()
    assert "11.0 GB of a device's memory are free; 2 at a time would fit" in refusal()
    give(monkeypatch, host=12 * GB, device=12 * GB)
    assert "12.0 GB of memory for checkpoints are free; 2 at a time" in refusal()
    # Three devices have one run each.
    give(monkeypatch, host=13 * GB, device=4 * GB)
    accept(devices=3)


@pytest.mark.parametrize(
    "options",
    [
        "--game probe:constant --set replay.capacity=1_000_000_000 --seeds 2",
        "--game frostbite --preset small --replay-memory 5GB",
    ],
)
def test_cases_34_and_35_the_command_refuses(options, monkeypatch, tmp_path, capsys):
    give(monkeypatch, 3 * GB)
    for setting in ("use_all_cores", "use_compilation_cache"):  # they are for good
        monkeypatch.setattr(f"sidequest.cli.train.{setting}", lambda: None)
    command = ["train", "XU-step-level-0.1", *options.split(), "--out", str(tmp_path / "o")]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    assert "and 3.0 GB of memory are free; use less --replay-memory" in said
    assert not (tmp_path / "o").exists()


def test_limits_of_control_groups(monkeypatch, tmp_path):
    """A process in a/b, of which a has a limit; in both versions."""
    group = tmp_path / "own"
    group.write_text("4:memory:/a/b\n1:cpu:/x\n0::/a/b\n")
    monkeypatch.setattr(memory, "_GROUP", group)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)

    def write(folder, **files):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / f"memory.{name}").write_text(text)

    stat = "inactive_file 7\ntotal_inactive_file 50\n"
    write(tmp_path / "memory/a", limit_in_bytes="1000", usage_in_bytes="700", stat=stat)
    write(tmp_path / "a/b", max="max\n", current="5\n", stat=stat)
    write(tmp_path / "a", max="900\n", current="800\n", stat=stat)
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    2 kB\nHugePages_Total:   0\n")
    monkeypatch.setattr(memory, "_MEMINFO", meminfo)
    assert memory._free_on_host() == 900 - 800 + 7
    write(tmp_path / "a", max="max\n")
    assert memory._free_on_host() == 1000 - 700 + 50
    group.unlink()
    assert memory._free_on_host() == 2048
