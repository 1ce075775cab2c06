"""`sidequest explain`: what it prints, draws and refuses."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import sidequest
from sidequest.cli.explain import example_arms, strip_lines
from sidequest.switching.descriptions import PAPER_VARIANTS, describe, summarise
from sidequest.types import Trace
from tests.cli import run

KEYS = [
    "name",
    "mode",
    "granularity",
    "explore",
    "trigger",
    "exploit",
    "start",
    "heads",
    "signals",
    "bandits",
]
NAMES = [name for names in PAPER_VARIANTS.values() for name in names]


def explain(capsys, *arguments: str) -> tuple[int, str, str]:
    """Returns exit code, standard output and standard error of `sidequest explain …`."""
    code = run("explain", *arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "xu-intra(10, informed, p*, x)",
            {
                "name": "XU-intra(10,informed,p*,X)",
                "mode": "XU",
                "granularity": "intra",
                "explore": "10",
                "trigger": "informed",
                "exploit": "p*",
                "start": "X",
                "heads": ["extrinsic"],
                "signals": ["reward", "discount", "value"],
                "bandits": [{"name": "exploit", "arms": [0.1, 0.01, 0.001, 0.0001]}],
            },
        ),
        (
            "XI-intra(*,informed:variance,0.01,G)",
            {
                "name": "XI-intra(*,informed:variance,0.01,G)",
                "mode": "XI",
                "granularity": "intra",
                "explore": "*",
                "trigger": "informed:variance",
                "exploit": "0.01",
                "start": "G",
                "heads": ["extrinsic", "intrinsic", "twin"],
                "signals": ["value_variance"],
                "bandits": [{"name": "explore", "arms": [1, 10, 100]}],
            },
        ),
        (
            "Xγ-episode-level-*",
            {
                "name": "Xγ-episode-level-*",
                "mode": "Xγ",
                "granularity": "episode",
                "explore": None,
                "trigger": None,
                "exploit": None,
                "start": "*",
                "heads": ["extrinsic", "short"],
                "signals": [],
                "bandits": [{"name": "start", "arms": [0, 1]}],
            },
        ),
    ],
)
def test_json_is_the_structure_and_nothing_else(capsys, name, expected):
    code, out, err = explain(capsys, name, "--json")
    assert (code, err) == (0, "")
    structure = json.loads(out)
    assert list(structure) == KEYS
    assert structure == expected


def test_all_lists_every_variant_once_and_each_name_is_canonical(capsys):
    code, out, _ = explain(capsys, "--all")
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  X")]
    listed = [name for name in listed if "-" in name]
    assert listed == NAMES
    assert len(set(NAMES)) == len(NAMES)
    assert [str(sidequest.parse(name)) for name in listed] == listed
    for mode in ("XU", "XI"):
        for baseline in ("experiment-level-X", "experiment-level-G", "step-level-0.01"):
            assert f"{mode}-{baseline}" in listed
        assert f"{mode}-episode-level-*" in listed
        assert f"{mode}-intra(10,informed,p*,X)" in listed


def test_all_as_json_is_the_same_list(capsys):
    _, out, _ = explain(capsys, "--all", "--json")
    assert [structure["name"] for structure in json.loads(out)] == NAMES


def test_nonsense_exits_with_2_and_a_caret_under_the_fault(capsys):
    code, out, err = explain(capsys, "XU-intra(10,blnd,p*,X)")
    assert (code, out) == (2, "")
    shown, caret = err.splitlines()[1:3]
    assert shown[caret.index("^") :] == "blnd,p*,X)"
    assert "blind" in err and "Traceback" not in err


def test_text_alone_does_not_load_jax():
    program = """
import sys
from sidequest.cli import main
for options in (["--all"], [NAME, "--json"], [NAME, "--no-strip"]):
    try:
        main(["explain", *options])
    except SystemExit as end:
        assert not end.code
assert not {"jax", "matplotlib"} & set(sys.modules)
""".replace("NAME", repr("XU-step-level-0.1"))
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_prose_names_each_choice():
    text = " ".join(describe(sidequest.parse("XI-intra(10,informed,p*,X)")))
    for part in (
        "intrinsic reward",
        "inside episodes",
        "value promise",
        "lasts 10 steps",
        "starts in explore mode",
        "target rate from 0.1, 0.01, 0.001, 0.0001",
    ):
        assert part in text
    blind = " ".join(describe(sidequest.parse("XU-intra(1,blind,5%,G)")))
    assert "lasts 1 step." in blind and "after 5% of an episode" in blind
    both = " ".join(describe(sidequest.parse("XI-step-level-0.01")))
    assert "uniformly random" in both and "together" in both
    coin = " ".join(describe(sidequest.parse("XU-intra(=,blind,0.01,G)")))
    assert "probability of 0.01" in coin and coin.count("switching is symmetric.") == 1
    informed = " ".join(describe(sidequest.parse("XU-intra(=,informed,p*,G)")))
    assert "symmetric, and the rate is that of both modes together." in informed


def test_the_text_says_what_the_variant_does_and_needs(capsys):
    name = "XI-intra(10,informed:mismatch,p*,X)"
    code, out, _ = explain(capsys, name, "--no-strip")
    assert code == 0 and "episode 1" not in out
    title, _, *lines = out.splitlines()
    assert title == name
    assert " ".join(describe(sidequest.parse(name)))[:40] in " ".join(lines)
    needs = [line.split()[:2] for line in lines[lines.index("It needs") + 1 :]]
    assert needs[0] == ["heads", "extrinsic"]
    assert [words[0] for words in needs[1:3]] == ["intrinsic", "twin"]
    assert needs[3:] == [["signals", "action_mismatch"], ["arms", "exploit"]]
    assert "0.1, 0.01, 0.001, 0.0001: the target rate" in out


def test_different_variants_read_differently():
    switching = [name for name in NAMES if not name.startswith(("XI", "XS", "Xγ"))]
    lines = [summarise(sidequest.parse(name)) for name in switching]
    assert len(set(lines)) == len(lines)
    texts = [" ".join(describe(sidequest.parse(name))) for name in NAMES]
    assert len(set(texts)) == len(texts)


def test_the_strip_has_one_letter_a_step_and_a_line_an_episode():
    modes = np.array([False] * 3 + [True] * 12 + [False, True])
    first = np.zeros(17, bool)
    first[[0, 15]] = True
    nothing = np.zeros(17, np.float32)
    lines = [
        line.plain
        for line in strip_lines(Trace(modes, first, nothing, nothing, nothing), 30)
    ]
    assert lines == [
        "episode 1        0  ···XXXXXXX",
        "                10  XXXXX",
        "episode 2        0  ·X",
    ]


@pytest.mark.parametrize(
    ("arguments", "median"),
    [
        (["XU-intra(1,blind,30,G)"], "1 step"),
        (["XU-experiment-level-X", "--steps", "1000", "--episode", "1000"], "1,000 steps"),
        (["XU-intra(=,informed:mismatch,p*,G)"], "20.5 steps"),
    ],
)
def test_the_median_stands_apart_from_its_meaning(capsys, arguments, median):
    _, out, _ = explain(capsys, *arguments)
    assert re.search(rf"med_X  {re.escape(median)} +the typical length", out)


def test_the_example_shows_what_the_name_says(capsys):
    code, out, _ = explain(
        capsys, "XU-intra(5%,blind,10,G)", "--steps", "100", "--episode", "100"
    )
    assert code == 0
    letters = "".join(
        line[20:] for line in out.splitlines() if line[12:18].strip().isdigit()
    )
    assert letters == ("·" * 10 + "X" * 5) * 6 + "·" * 10
    assert "p_X    0.3 " in out and "med_X  5 steps" in out


def test_several_variants_are_compared(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    names = ["XU-intra(10,blind,100,G)", "XI-intra(10,informed,0.01,G)"]
    code, out, _ = explain(capsys, *names, "--steps", "110", "--episode", "110")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:2]] == names
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line]
    table = {row[0]: row[1].split() for row in rows if len(row) > 1}
    assert table["mode"] == ["XU", "XI"]
    assert table["trigger"] == ["blind", "informed"]
    assert table["heads"] == ["extrinsic", "extrinsic,", "intrinsic"]
    assert (
        out.strip().splitlines()[-1].startswith("The same: granularity intra; explore 10")
    )
    _, out, _ = explain(capsys, *names, "--json")
    assert [one["name"] for one in json.loads(out)] == names


def test_an_example_fixes_what_bandits_would_choose():
    doubly = sidequest.parse("XU-intra(*,blind,n*,G)")
    assert example_arms(doubly) == {"explore": 10, "exploit": 100}
    assert example_arms(sidequest.parse("XU-episode-level-*")) == {}


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_plot_writes_a_picture_and_keeps_standard_output_clean(capsys, tmp_path, suffix):
    path = tmp_path / "deeper" / f"plot{suffix}"
    arguments = ("XU-intra(10,informed,p*,X)", "--json", "--plot", str(path))
    code, out, err = explain(capsys, *arguments)
    assert code == 0 and str(path) in err
    assert list(json.loads(out)) == KEYS
    data = path.read_bytes()
    assert len(data) > 10_000
    assert data.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
