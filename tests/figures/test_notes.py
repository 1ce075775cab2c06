"""What figures say about gaps."""

from sidequest.figures.notes import absent_note, count, gap_notes, some
from tests.figures.made_up import Cell

STEP, EPISODE = "XU-step-level-0.01", "XU-episode-level-*"


def test_a_complete_study_has_nothing_to_note(study_of):
    cells = [Cell(STEP, "game:a", seed, 1.0) for seed in (0, 1)]
    records = study_of(*cells)
    assert gap_notes(records, records.runs) == []


def test_what_is_going_waiting_or_missing_is_named(study_of):
    records = study_of(
        Cell(STEP, "game:a", 0, 1.0),
        Cell(STEP, "game:a", 1, 1.0, share=0.25),
        Cell(STEP, "game:a", 2, 1.0, share=0.0),
        Cell(EPISODE, "game:b", 0, 1.0),
        Cell(EPISODE, "game:b", 1, 1.0),
        Cell(STEP, "game:b", 0, 1.0),
    )
    assert gap_notes(records, records.runs) == [
        "1 run is still going or was cut short, drawn as far as it goes: "
        f"{STEP} on game:a, seed 1 (25%).",
        f"1 planned run has not started: {STEP} on game:a, seed 2.",
        f"No runs of {EPISODE} on game:a.",
        f"One seed only: {STEP} on game:b.",
    ]


def test_one_seed_everywhere_is_said_once(study_of):
    records = study_of(Cell(STEP, "game:a", 0, 1.0), Cell(EPISODE, "game:a", 0, 1.0))
    (note,) = gap_notes(records, records.runs)
    assert note.startswith("One seed each")


def test_what_another_figure_draws_is_not_missed_here(study_of):
    records = study_of(
        Cell(STEP, "game:a", 0, 1.0),
        Cell(STEP, "game:a", 1, 1.0),
        Cell(EPISODE, "game:a", 0, 1.0, share=0.0),
    )
    assert gap_notes(records, records.runs) == []


def test_words():
    assert some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert (count(1, "seed"), count(2, "seed")) == ("1 seed", "2 seeds")
    assert absent_note(["a", "b"], ["b"]) == ["Not in these records: a."]
    assert absent_note(["b"], ["b"]) == []
