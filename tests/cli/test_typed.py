"""Command lines that are typed at random: each is done or refused, without a traceback."""

import contextlib
import io
import random

import pytest

from sidequest.cli import main

SEED = 2_000
VALID = [
    ["train", "XU-intra(10,informed,p*,X)", "--game", "minatar:breakout", "--seeds", "2"],
    ["train", "XI-step-level-0.1", "--game", "frostbite", "--replay-memory", "40GB"],
    ["train", "XU-step-level-0.1", "--game", "probe:constant", "--set", "replay.ratio=1.0"],
    ["train", "XU-step-level-0.1", "--game", "probe:constant", "--frames", "2M", "--fresh"],
    ["train", "--resume", "RUN", "--checkpoint-every", "2k", "--quiet"],
    ["train", "--from", "RUN", "--out", "other", "--tensorboard"],
    ["study", "quick", "--games", "probe:constant", "--seeds", "2", "--frames", "10k"],
    ["study", "quick/tiny", "--variants", "XU-step-level-0.1", "--workers", "2"],
    ["study", "--list"],
    ["evaluate", "RUN", "--episodes", "3", "--seed", "4", "--json"],
    ["watch", "RUN", "--out", "film.gif", "--seed", "1", "--greedy", "--fps", "5"],
    ["games", "minatar", "--json"],
    ["explain", "XU-intra(10,informed,p*,X)"],
    ["figures", "studies/quick", "--only", "scores", "--out", "figures"],
    ["bench", "agent", "--population", "1", "4", "--json"],
    ["settings"],
    ["--version"],
]
ODD = [
    *("", " ", "-", "--", "---", "-1", "0", "1e999", "9" * 30, "nan", "inf", "None"),
    *("true", "[]", "{}", "'", '"', "\\", "\n", "\t", "é", "日本", "\udcff", "🎲", "%s"),
    *("../..", "/", "~", "*", "$HOME", "`id`", "a" * 5_000, "-" * 5_000, "((((", "p*"),
    *(
        "--help",
        "-h",
        "--seed",
        "--game",
        "--set",
        "--out",
        "--frames",
        "--only",
        "=",
        "x=",
    ),
    *("replay.capacity=", "replay.ratio=1e300", "learning.batch_size=-1", "a.b=1", "atari"),
    *("XU-intra(10,informed,p*,X", "XU", "XI-intra(,,,)", "2**31", "0x10", "1_000", "١"),
]


def mutate(words: list[str], dice: random.Random) -> list[str]:
    """Returns a command line that differs in one to three places."""
    words = list(words)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(words)) if words else 0
        match dice.randrange(6):
            case 0:
                words.insert(place, dice.choice(ODD))
            case 1 if words:
                words[place] = dice.choice(ODD)
            case 2 if words:
                del words[place]
            case 3 if words:
                words.insert(dice.randrange(len(words) + 1), words[place])
            case 4 if words and words[place]:
                letters = list(words[place])
                letters[dice.randrange(len(letters))] = dice.choice("x0-=.,:(*é \udcff")
                words[place] = "".join(letters)
            case _:
                words += dice.choice(VALID)[1:]
    return words


@pytest.fixture
def idle(monkeypatch, tmp_path):
    """Commands check everything that was typed, and then do nothing."""
    monkeypatch.chdir(tmp_path)

    def nothing(*_, **__):
        raise SystemExit(0)

    for work in (
        *("runs.trainer.run", "study.scheduler.run", "study.estimate.forecast"),
        *("runs.evaluation.evaluate_run", "runs.evaluation.load_player"),
        *("bench.agent.measure", "bench.atari.measure", "bench.switching.measure"),
        *("figures.illustrations.draw_all", "cli.explain._play_example"),
    ):
        monkeypatch.setattr(f"sidequest.{work}", nothing)


def type_all(numbers: range) -> None:
    for number in numbers:
        dice = random.Random(f"{SEED} {number}")
        words = mutate(dice.choice(VALID), dice)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException as error:
                raise AssertionError(f"{number}: {words}: {error!r}") from error
        assert code in (0, 2, 66, 73), (number, words, code)
        assert code == 0 or err.getvalue() + out.getvalue(), (number, words)


def test_mutated_command_lines(idle):
    type_all(range(60))


@pytest.mark.slow
def test_2000_mutated_command_lines(idle):
    type_all(range(2_000))
