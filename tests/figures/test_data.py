"""Finding runs, reading their tables into frames, and measuring them."""

import dataclasses
import os
from pathlib import Path

import polars as pl
import pytest

from sidequest.cli import main
from sidequest.config import SMALL, change
from sidequest.errors import CorruptFile
from sidequest.figures.data import (
    distinct,
    exploit_periods,
    most_learned,
    of_runs,
    read_records,
    read_traces,
    read_variant,
)
from sidequest.figures.report import gaps
from sidequest.figures.style import listed, listed_games, some
from sidequest.records import (
    RUN_FILE,
    TABLES,
    Recorder,
    read_failures,
    read_run,
    read_study,
    write_json,
)
from tests.figures.fakes import Fake, make_records
from tests.figures.made_up import FRAMES, GAMES, Cell, folder_of, make_study, write_run

STEP, EPISODE = "XU-step-level-0.01", "XU-episode-level-*"
INTRA = "XI-intra(10,informed,p*,X)"
INFORMED = "XU-intra(10,informed,0.01,G)"
CELLS = [Cell(STEP, GAMES[0], seed, 3.0) for seed in (0, 1)]


def test_a_study_is_read_in_its_own_order_with_what_is_missing(study_of):
    records = study_of(
        Cell(STEP, "game:b", 0, 5.0),
        Cell(INTRA, "game:a", 1, 5.0, share=0.4),
        Cell(STEP, "game:a", 0, 5.0, share=0.0),
    )
    assert records.name == "made-up" and records.title == "A made-up study"
    columns = ("variant", "game", "seed", "finished", "frames", "frames_done")
    assert records.runs.select(columns).rows() == [
        (STEP, "game:b", 0, True, FRAMES, FRAMES),
        (INTRA, "game:a", 1, False, FRAMES, 0.4 * FRAMES),
    ]
    assert records.runs.select("mode", "setting").row(1) == ("XI", INTRA[3:])
    assert [item["game"] for item in records.missing] == ["game:a"]
    assert distinct(records.runs, "game") == ["game:b", "game:a"]


def test_any_folder_with_runs_below_it_will_do(tmp_path):
    write_run(tmp_path / "deep" / "down", Cell(STEP, "game:a", 3, 1.0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("{}")  # not a run of ours
    records = read_records(tmp_path)
    assert records.name == tmp_path.name and not records.missing
    assert [one.folder.name for one in records.left_out] == ["other"]
    assert records.runs.select("variant", "seed", "settings").rows() == [(STEP, 3, "{}")]


def test_a_run_that_is_not_in_the_plan_is_read_too(tmp_path):
    make_study(tmp_path, [Cell(STEP, "game:a", 0, 1.0)])
    write_run(tmp_path / "extra", Cell(STEP, "game:a", 1, 1.0))
    assert read_records(tmp_path).runs["seed"].to_list() == [0, 1]


def test_of_a_run_started_twice_the_one_that_got_further_counts(tmp_path):
    write_run(tmp_path / "a", Cell(STEP, "game:a", 0, 1.0, share=0.3))
    write_run(tmp_path / "b", Cell(STEP, "game:a", 0, 1.0))
    records = read_records(tmp_path)
    assert records.runs["finished"].to_list() == [True]
    assert distinct(records.episodes, "run") == [0]


def write_config(folder: Path, config: dict) -> None:
    run = {"variant": STEP, "game": "game:a", "seed": 0, "frames": 10, "config": config}
    Recorder(folder, run).close()


def test_without_a_plan_settings_are_what_configs_differ_in(tmp_path):
    for name, ratio in (("a", 1.0), ("b", 2.0)):
        write_config(tmp_path / name, {"replay": {"ratio": ratio, "capacity": 5}})
    assert read_records(tmp_path).runs["settings"].to_list() == [
        '{"replay.ratio": 1.0}',
        '{"replay.ratio": 2.0}',
    ]


def test_how_often_runs_are_evaluated_does_not_tell_them_apart(tmp_path):
    for seed, interval in enumerate((4_000, 8_000)):  # a tenth of their frames
        folder = tmp_path / f"{seed}"
        write_config(folder, {"evaluation": {"interval": interval, "episodes": 4}})
        write_json(folder / RUN_FILE, read_run(folder) | {"seed": seed})
    runs = read_records(tmp_path).runs
    assert runs["usual"].to_list() == [True, True]
    assert runs["label"].to_list() == [STEP, STEP]


def test_configs_of_earlier_versions_do_not_differ_in_renamed_settings(tmp_path):
    write_config(tmp_path / "a", {"learning": {"standardised": True}})
    new = {"normalise_inputs": True, "normalise_values": True}
    write_config(tmp_path / "b", {"learning": new})
    assert read_records(tmp_path).runs["settings"].to_list() == ["{}"]


def test_a_probe_with_settings_of_its_own_is_not_pooled(study_of):
    records = study_of(
        Cell(INTRA, "game:a", 0, 1.0),
        Cell(INTRA, "game:a", 0, 2.0, {"learning.watkins": False}),
        Cell(INTRA, "game:a", 0, 3.0, {"learning.watkins": True}),
    )
    assert records.runs["usual"].to_list() == [True, False, False]
    assert records.runs["watkins"].to_list() == [True, False, True]


def test_of_a_probe_with_as_many_runs_as_the_default_the_plan_knows_which_is_which(
    tmp_path,
):
    cut, uncut = {"learning.watkins": True}, {"learning.watkins": False}
    cells = [Cell(INTRA, "game:a", n % 2, 1.0, cut if n < 2 else uncut) for n in range(4)]
    plan = read_study(make_study(tmp_path, cells))
    for planned in plan["runs"][2:]:  # the preset's default, whose text is longer
        planned["settings"] = {}
    write_json(tmp_path / "study.json", plan)
    assert read_records(tmp_path).runs.select("watkins", "usual").rows() == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]


def test_runs_of_before_and_after_a_new_setting_are_pooled(tmp_path):
    today = dataclasses.asdict(change(SMALL, **{"learning.trace_tolerance": 0.0}))
    newest = {key: today["learning"].pop(key) for key in ("trace_tolerance",)}
    for seed in range(3):
        folder = tmp_path / f"{seed}"
        learning = today["learning"] | (newest if seed == 2 else {})
        write_config(folder, today | {"learning": learning})
        write_json(folder / RUN_FILE, read_run(folder) | {"seed": seed})
    assert read_records(tmp_path).runs["settings"].to_list() == ["{}"] * 3


def test_pieces_of_a_study_pool_whichever_plan_is_left_of_them(tmp_path):
    """As after `cp -r piece-*/. all/`: study.json is one piece's, and there is a probe."""
    pieces = [
        [
            Cell(STEP, "game:a", seed, 1.0),
            Cell(INTRA, "game:a", seed, 1.0),
            Cell(INTRA, "game:a", seed, 1.0, {"learning.watkins": True}),
        ]
        for seed in range(3)
    ]
    make_study(tmp_path, pieces.pop())
    for cell in sum(pieces, []):
        write_run(tmp_path / folder_of(cell), cell)
    runs = read_records(tmp_path).runs.filter(variant=INTRA)
    assert len(runs) == 6
    assert runs.group_by("label", "usual").agg(pl.col("seed").sort()).sort(
        "label"
    ).rows() == [
        (INTRA, True, [0, 1, 2]),
        (f"{INTRA} [learning.watkins=true]", False, [0, 1, 2]),
    ]


def test_settings_that_all_runs_of_a_variant_share_set_nothing_apart(study_of):
    records = study_of(
        Cell(STEP, "game:a", 0, 1.0, {"replay.ratio": 1.0}),
        Cell(STEP, "game:a", 1, 1.0, {"replay.ratio": 1.0}),
        Cell(INTRA, "game:a", 0, 1.0),
    )
    assert records.runs["usual"].all()


def test_tables_have_the_same_columns_whatever_runs_wrote(tmp_path):
    run = {"variant": STEP, "game": "game:a", "seed": 0, "frames": 10}
    recorder = Recorder(tmp_path, run)
    recorder.write("evaluations", [{"frames": 1, "return": None}])
    recorder.write("evaluations", [{"frames": 2, "return": 5}])
    recorder.write("episodes", [{"frames": 2}])
    recorder.close()
    records = read_records(tmp_path)
    assert records.evaluations.select("run", "frames", "return").rows() == [
        (0, 1, None),
        (0, 2, 5.0),
    ]
    assert records.episodes["p_X"].to_list() == [None]
    assert records.traces.is_empty() and records.bandits.is_empty()
    counts = records.runs.select("evaluations", "episodes", "bandits", "traces")
    assert counts.row(0) == (2, 1, 0, 0)


def test_a_name_that_cannot_be_parsed_is_no_variant(tmp_path):
    assert read_variant("<script>") is None
    assert str(read_variant(STEP)) == STEP


# Measures


def test_scores_and_statistics_are_of_the_same_tenth(tmp_path):
    """Training has come to 1,000 frames; evaluation episodes end where they end."""
    run = {"variant": INFORMED, "game": "a", "seed": 0, "frames": 2_000}
    recorder = Recorder(tmp_path / "run", run)
    returns = {100: [9], 200: [9], 300: [9], 901: [2, None], 920: [3, 4], 950: [7]}
    for frames, episodes in returns.items():
        rows = [{"frames": frames, "return": one, "length": 1} for one in episodes]
        recorder.write("evaluations", rows)
    episodes = {90: 0.5, 100: 0.3, 101: 1.0, 900: 1.0, 910: 0.2, 1_000: 0.1}
    recorder.write("episodes", [{"frames": f, "p_X": p} for f, p in episodes.items()])
    recorder.close()
    (found,) = read_records(tmp_path).runs.to_dicts()
    assert (found["frames_done"], found["finished"]) == (1_000, False)
    assert found["score"] == (2 + 3 + 4 + 7) / 4
    assert (found["early_p_X"], found["late_p_X"]) == pytest.approx((0.4, 0.15))
    assert found["late_med_X"] is None


@pytest.mark.parametrize(
    "returns, end, score",
    [
        ({100: [50], 870: [3, 4]}, 1000, 3.5),  # none so late: the newest evaluation
        ({100: [50]}, 1000, 50.0),
        ({}, 1000, None),
        ({10: [7], 50: [7], 55: [9], 60: [7]}, 60, 8.0),  # beyond 54
        ({905: [4], 950: [10, 1], 990: [1]}, 1050, 4.0),  # beyond 945
    ],
)
def test_final_performance_is_by_frames_and_every_episode_counts_once(
    tmp_path, returns, end, score
):
    recorder = Recorder(tmp_path, {"variant": STEP, "game": "a", "seed": 0, "frames": end})
    rows = [{"frames": f, "return": one} for f, own in returns.items() for one in own]
    recorder.write("evaluations", rows)
    recorder.write("learning", [{"frames": end, "loss": 1.0}])
    recorder.close()
    assert read_records(tmp_path).runs["score"].to_list() == [score]


@pytest.mark.parametrize("end", [10, 70, 1_230, 19_990, 200_000_000])
def test_a_tenth_is_exact(tmp_path, end):
    """So that evaluations at even tenths never put the ninth into the last."""
    recorder = Recorder(tmp_path, {"variant": STEP, "game": "a", "seed": 0, "frames": end})
    tenths = (end // 10, 9 * end // 10, end)
    rows = [{"frames": frames, "p_X": i, "return": i} for i, frames in enumerate(tenths, 1)]
    recorder.write("evaluations", rows)
    recorder.write("episodes", rows)
    recorder.close()
    found = read_records(tmp_path).runs
    assert found.select("early_p_X", "late_p_X", "score").row(0) == (1.0, 3.0, 3.0)


def test_recorded_episodes_are_read_when_they_are_asked_for(tmp_path):
    records = make_records(
        tmp_path,
        Fake(INFORMED, scores=(1.0, 2.0), modes="GGXGGXGGGGXX"),
        Fake(STEP, scores=(1.0, 2.0)),
    )
    assert records.runs["traces"].to_list() == [10, 10, 0, 0]
    assert records.traces.select("run", "length", "explored").row(0) == (0, 12, 4)
    rows = of_runs(records.traces, records.runs, "seed").filter(pl.col("row") == 3)
    read = read_traces(records, rows, "modes", "signal")
    assert read["seed"].to_list() == [0, 1] and read["row"].to_list() == [3, 3]
    assert read["signal"][0].to_list()[:3] == [None, 0.1, 0.2]
    assert exploit_periods(read).rows() == [(0, 2), (0, 4), (1, 2), (1, 4)]
    assert read_traces(records, rows.clear(), "modes").columns[-1] == "modes"


def test_switches_are_counted_over_the_second_half(tmp_path):
    fake = Fake(INFORMED, scores=(1.0,), p=(0.2, 0.2), ratio=1.5)
    records = make_records(tmp_path, fake)
    # 10 episodes of 10,000 steps, 8,000 of them exploit, at 0.01
    late = records.switches.filter("second_half").drop("run", "second_half")
    ((target, made, asked),) = late.rows()
    assert (target, made, asked) == pytest.approx((0.01, 1_200, 800))


# Files that cannot be read


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def run(*arguments: str | Path):
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    return stopped.value.code


@pytest.fixture
def study(tmp_path) -> Path:
    return make_study(tmp_path / "study", CELLS)


@pytest.fixture
def torn(study) -> Path:
    """The folder of the first of two runs."""
    return study / folder_of(CELLS[0])


@pytest.mark.parametrize("name", TABLES)
def test_a_run_with_a_torn_table_is_left_out(study, torn, name):
    path = torn / f"{name}.parquet"
    if not path.exists():  # this variant has no bandit
        path.write_bytes((torn / "episodes.parquet").read_bytes())
    tear(path)
    records = read_records(study)
    assert records.runs["seed"].to_list() == [1] and not records.missing
    (left,) = records.left_out
    assert left.folder == torn and left.reason.startswith(f"{path} cannot be read: ")


def test_a_torn_run_file_and_a_bad_line_are_left_out(study, torn):
    tear(torn / "run.json")
    going = {"variant": STEP, "game": GAMES[0], "seed": 5, "frames": 10}
    recorder = Recorder(study / "going", going)
    recorder.write("episodes", [{"frames": 1}, {"frames": 2}])
    recorder.close()
    tear(study / "going" / "episodes.jsonl")
    reasons = [one.reason for one in read_records(study).left_out]
    assert len(reasons) == 2
    assert "run.json cannot be read" in reasons[0]
    assert "episodes.jsonl cannot be read" in reasons[1]


def test_damage_inside_a_table_leaves_the_run_out(study, torn):
    """Its end is whole, so that the file opens."""
    path = torn / "traces.parquet"
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * (path.stat().st_size // 2))
    (left,) = read_records(study).left_out
    assert "traces.parquet cannot be read" in left.reason


def test_the_report_names_what_was_left_out(study, torn):
    tear(torn / "episodes.parquet")
    told = gaps(read_records(study))
    assert told and told.caption == "1 run not finished or not readable"
    assert "episodes.parquet cannot be read" in told.rows[0][-1]


@pytest.mark.parametrize("content", ["", '{"name": "ma', "[]", '{"runs": [{"id": "a"}]}'])
def test_a_torn_plan_is_told(study, content):
    (study / "study.json").write_text(content)
    with pytest.raises(CorruptFile, match="study.json cannot be read.*; move this file"):
        read_study(study)


def test_torn_reasons_are_told(study):
    assert read_failures(study) == {}
    (study / "failures.json").write_text("{")
    with pytest.raises(CorruptFile, match="failures.json cannot be read"):
        read_failures(study)


def test_the_command_warns_and_draws_the_others(study, torn, capsys):
    tear(torn / "evaluations.parquet")
    assert not run("figures", study, "--only", "scores")
    told = capsys.readouterr()
    assert told.err.startswith(f"left out: {torn / 'evaluations.parquet'} cannot be read")
    unchecked = "1 of 1 runs were recorded without digests: their tables are unchecked\n"
    assert told.err.endswith(f"\n{unchecked}"), "made-up runs have none"
    assert told.err.count("\n") == 2 and len(told.out.split()) == 2


def test_the_command_refuses_if_nothing_can_be_read(study, capsys):
    for cell in CELLS:
        tear(study / folder_of(cell) / "episodes.parquet")
    assert run("figures", study) == 66
    assert capsys.readouterr().err.count("episodes.parquet cannot be read") == 2
    tear(study / "study.json")
    assert run("figures", study) == 66
    told = capsys.readouterr().err
    assert told.startswith(f"{study / 'study.json'} cannot be read")
    assert told.count("\n") == 1


def test_words():
    assert some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a", "b", "c"]) == "a, b and c" and listed(["a"]) == "a"
    assert listed_games("aabcdef") == "a, b, c, d, e and f"
    assert listed_games("abcdefg") == "7 games"


@pytest.mark.parametrize(
    "learned, most",
    [
        ([True, None, None], True),  # two seeds have no score yet
        ([True, True, False], True),
        ([True, False], False),
        ([False, None], False),
        ([None, None], None),
    ],
)
def test_most_of_the_runs_whose_score_is_known_learned(learned, most):
    runs = pl.DataFrame({"learned": learned}, schema={"learned": pl.Boolean})
    assert runs.select(most_learned()).item() is most
