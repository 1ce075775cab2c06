"""The gallery as a whole, and the command that draws it."""

import itertools
import struct

import pytest

from sidequest.cli import main
from sidequest.environments.scores import KNOWN
from sidequest.figures import gallery, style
from sidequest.figures.curves import learning_curves
from sidequest.figures.data import Records, read_records
from sidequest.figures.gallery import GALLERY
from sidequest.figures.space import explore_space_all
from sidequest.figures.switching import bandit_arms
from sidequest.figures.uncertainty import scores
from sidequest.records import write_json
from tests.figures.made_up import GAMES, Cell, folder_of

INTRA = "XU-intra(10,informed,p*,X)"


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code or 0


def test_names_are_for_files_and_texts_are_there():
    names = [entry.name for entry in GALLERY]
    assert set(names) == set(gallery._DRAW)
    assert all(name.replace("-", "").isalnum() and name.islower() for name in names)
    assert all(entry.title and len(entry.look_for) > 40 for entry in GALLERY)
    figures = {entry.paper for entry in GALLERY}
    for number in (1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16):
        assert f"Figure {number}" in figures


@style.styled
def test_a_whole_study_has_every_figure_and_no_label_is_cut(plots):
    assert len(plots) == len(GALLERY)
    for name, plot in plots.items():
        assert 0 < plot.caption.count(". ") + 1 <= 4 and len(plot.caption) < 400, name
        assert 0 < len(plot.table) <= 120, name
        plot.figure.draw_without_rendering()
        (width, height), box = plot.figure.get_size_inches(), plot.figure.get_tightbbox()
        assert box.x0 >= 0 and box.x1 <= width, name
        assert box.y0 >= 0 and box.y1 <= height, name


@pytest.mark.parametrize("share", [0.02, 0.11, 0.5])
def test_a_single_run_that_is_going_draws_or_says_what_it_needs(share, study_of):
    records = study_of(Cell(INTRA, GAMES[0], 0, 3.0, share=share))
    check_all(records)


def test_a_study_in_which_nothing_has_begun_says_what_it_needs(study_of):
    check_all(study_of(Cell(INTRA, GAMES[0], 0, 3.0, share=0.0)), drawn=0)


def test_recorded_episodes_of_one_granularity_are_not_said_to_be_missing(study_of, capsys):
    records = study_of(Cell(INTRA, GAMES[0], 0, 3.0))
    run("figures", str(records.folder), "--only", "granularities", "episodes-all")
    told = capsys.readouterr()
    assert "episodes-all.png" in told.out  # there are recorded episodes
    assert "recorded episodes (table `traces`) of two granularities" in told.err


def test_names_that_this_version_cannot_read_do_no_harm(study_of):
    cells = [Cell(INTRA, GAMES[0], 0, 3.0), Cell("XU-step-level-0.01", GAMES[0], 0, 4.0)]
    records = study_of(*cells)
    hostile = records.folder / folder_of(cells[1]) / "run.json"
    run_info = {"variant": "$x_{</script>", "game": "$\\frac{", "seed": 0, "frames": 10}
    write_json(hostile, run_info)
    check_all(read_records(records.folder))


@style.styled
def test_the_longest_names_of_games_do_not_overlap(study_of):
    games = sorted(KNOWN, key=len)[-7:]
    records = study_of(*(Cell(INTRA, game, 0, 3.0) for game in games))
    for draw in (scores, bandit_arms, learning_curves, explore_space_all):
        figure = draw(records).figure
        figure.draw_without_rendering()
        texts = [text for axes in figure.axes for text in (axes.title, axes._left_title)]
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        rest = boxes[draw is bandit_arms :]  # its first title has the variant above others
        assert len(rest) >= 6
        assert not any(a.overlaps(b) for a, b in itertools.combinations(rest, 2))


def check_all(records: Records, drawn: int | None = None) -> None:
    plots = [entry.draw(records) for entry in GALLERY]
    found = [plot for plot in plots if plot is not None]
    for plot in found:
        plot.figure.draw_without_rendering()
    assert drawn is None or len(found) == drawn


def test_the_command_draws_what_it_can_and_says_what_it_cannot(study_of, capsys):
    other = "XU-step-level-0.01"
    records = study_of(*(Cell(name, GAMES[0], 0, 3.0) for name in (INTRA, other)))
    assert run("figures", str(records.folder), "--only", "scores", "off-policy") == 0
    told = capsys.readouterr()
    expected = [records.folder / "figures" / f"scores{end}" for end in style.SUFFIXES]
    assert told.out.split() == [str(path) for path in expected]
    assert "off-policy: Nothing to draw yet" in told.err
    width, _ = struct.unpack(">II", expected[0].read_bytes()[16:24])
    assert width == 1600


def test_the_same_records_give_the_same_bytes(study_of, tmp_path, capsys):
    records = study_of(*(Cell(INTRA, GAMES[0], seed, 3.0 + seed) for seed in (0, 1)))
    written = []
    for name in ("one", "two"):
        out = tmp_path / name
        run(
            "figures",
            str(records.folder),
            "--out",
            str(out),
            "--only",
            "episodes-all",
            "iqm",
        )
        written.append([path.read_bytes() for path in sorted(out.iterdir())])
    assert len(written[0]) == 4 and written[0] == written[1]


def test_what_cannot_be_drawn_is_refused(tmp_path, capsys):
    assert run("figures", str(tmp_path)) == 2
    assert "there is no run below" in capsys.readouterr().err
    assert run("figures", str(tmp_path), "--only", "iqn") == 2
    assert "no figure 'iqn'; did you mean iqm?" in capsys.readouterr().err
