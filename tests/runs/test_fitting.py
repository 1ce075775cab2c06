"""Runs that cannot fit into memory are refused before anything is made (cases 34, 35)."""

import pytest

from sidequest.cli import main
from sidequest.runs import fitting
from sidequest.runs.fitting import Holding, refuse_too_large

GB = 10**9
# Three runs of 4 GB, of which 3 GB are replay of a million observations.
HOLDING = Holding(3, 4 * GB, 3 * GB, 3 * 4 * GB, 1, lambda size: f"{size / 3e3:.0f} of it")


def give(monkeypatch, host, device=None):
    monkeypatch.setattr(fitting, "free_on_host", lambda: host)
    monkeypatch.setattr(fitting, "free_on_device", lambda: device)


def test_on_a_cpu_a_checkpoint_is_a_second_copy(monkeypatch):
    give(monkeypatch, 24 * GB)
    refuse_too_large(HOLDING)  # 3 x 4 GB, twice
    give(monkeypatch, None)
    refuse_too_large(HOLDING)  # nobody says
    give(monkeypatch, 18 * GB)
    with pytest.raises(ValueError) as refused:
        refuse_too_large(HOLDING)
    # 6 GB too many for six replays: 2 GB are left to each, of a million observations 2/3.
    assert str(refused.value) == (
        "3 runs need 24.0 GB or more (replay takes 3.0 GB of each), and 18.0 GB of memory "
        "are free; 666667 of it or 2 at a time would fit"
    )
    give(monkeypatch, 5 * GB)
    with pytest.raises(ValueError, match=r"free; 0 of it would fit"):
        refuse_too_large(HOLDING)


def test_on_an_accelerator_copies_are_on_the_host(monkeypatch):
    give(monkeypatch, host=12 * GB, device=12 * GB)
    refuse_too_large(HOLDING)
    give(monkeypatch, host=12 * GB, device=11 * GB)
    with pytest.raises(ValueError, match="12.0 GB or .* 11.0 GB of a device's memory are"):
        refuse_too_large(HOLDING)
    give(monkeypatch, host=11 * GB, device=12 * GB)
    with pytest.raises(ValueError, match="11.0 GB of memory for checkpoints are"):
        refuse_too_large(HOLDING)
    # Three devices have one run each.
    give(monkeypatch, host=12 * GB, device=4 * GB)
    refuse_too_large(HOLDING._replace(devices=3))


@pytest.mark.parametrize(
    "options, advice",
    [
        # Of 80 bytes or so each: the rest of the state is small.
        (
            ["--game", "probe:constant", "--set", "replay.capacity=1e9", "--seeds", "2"],
            "--set replay.capacity=",
        ),
        (
            ["--game", "frostbite", "--preset", "small", "--replay-memory", "5GB"],
            "--replay-memory ",
        ),
        (
            ["--game", "frostbite", "--preset", "small", "--replay-memory", "500GB"]
            + ["--set", "replay.capacity=5_000_000"],
            "--set replay.capacity=",
        ),
    ],
)
def test_cases_34_and_35_the_command_refuses(
    options, advice, monkeypatch, tmp_path, capsys
):
    """And what it advises to do instead is not refused."""
    give(monkeypatch, 3 * GB)
    for setting in ("use_all_cores", "use_compilation_cache"):  # they are for good
        monkeypatch.setattr(f"sidequest.cli.train.{setting}", lambda: None)
    options = [option.replace("1e9", "1_000_000_000") for option in options]
    command = ["train", "XU-step-level-0.1", *options, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and said.count("\n") == 1
    assert "and 3.0 GB of memory are free; " + advice in said
    assert not (tmp_path / "out").exists()
    advised = said.split("free; ")[1].split(" would fit")[0].split(" or ")[0]

    class Accepted(Exception):
        pass

    def accept(*_):
        raise Accepted

    monkeypatch.setattr("sidequest.runs.trainer.lock_folders", accept)
    with pytest.raises(Accepted):
        main([*command, *advised.split(" ")])


def test_limits_of_control_groups(monkeypatch, tmp_path):
    """A process in a/b, of which a has a limit; in both versions."""
    group = tmp_path / "own"
    group.write_text("4:memory:/a/b\n1:cpu:/x\n0::/a/b\n")
    monkeypatch.setattr(fitting, "GROUP", group)
    monkeypatch.setattr(fitting, "GROUPS", tmp_path)

    def write(folder, **files):
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name.replace("memory_", "memory.", 1)).write_text(text)

    write(
        tmp_path / "memory/a",
        memory_limit_in_bytes="1000\n",
        memory_usage_in_bytes="700\n",
        memory_stat="inactive_file 1\ntotal_inactive_file 50\n",
    )
    write(
        tmp_path / "a/b",
        memory_max="max\n",
        memory_current="5\n",
        memory_stat="inactive_file 1\n",
    )
    for name, text in {"max": "900", "current": "800", "stat": "inactive_file 7\n"}.items():
        (tmp_path / f"a/memory.{name}").write_text(text)
    assert sorted(fitting.free_in_groups()) == [107, 350]
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 9 kB\nMemAvailable:    2 kB\nHugePages_Total:   0\n")
    monkeypatch.setattr(fitting, "MEMORY", memory)
    assert fitting.free_on_host() == 107
    group.unlink()
    assert fitting.free_on_host() == 2048


def test_sizes_in_words():
    assert [fitting.round_down(n) for n in (7, 99.9, 123_456, 0)] == [7, 99, 120_000, 0]
    assert fitting.gigabytes(1_234.5e9) == "1,234.5 GB"
