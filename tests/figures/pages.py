"""A small study with a bit of everything, and its report."""

from pathlib import Path

import pytest

from sidequest.figures import gallery
from sidequest.figures.data import Plot, Records, read_records
from sidequest.figures.gallery import Entry
from sidequest.figures.report import write_report
from sidequest.figures.style import new_figure
from sidequest.records import write_json
from tests.figures.fakes import Fake, make_records

HOSTILE = "</script><img src=x onerror='window.hacked=1'>&\"$name"
TITLE = "A <b>bold</b> & small study"
SIGNAL_TEXT = "GGGGXXXXGGGXXG"
FAKES = (
    Fake("XU-step-level-0.01", "a", (1.0, 2.0, 3.0), modes="GGXGGGGGXG"),
    Fake("XU-step-level-0.01", "b", (10.0, 20.0, 30.0), modes="GXGG"),
    Fake("XU-intra(10,blind,p*,X)", "a", (5.0, 5.5, 6.0), modes="XXGG", wobble=0.05),
    Fake("XU-intra(10,blind,n*,X)", "a", (7.0, 7.75, 8.5), modes="XGGG"),
    Fake(
        "XU-intra(10,informed,0.01,G)",
        "a",
        (100.0, 9.0, 54.5),
        modes=SIGNAL_TEXT,
        ratio=1.05,
    ),
    Fake("XU-episode-level-*", "a", (4.0,), finished=False),
    Fake(HOSTILE, "a", (2.0, 2.25, 2.5), modes="GX"),
)


def draw_line(records: Records) -> Plot:
    figure = new_figure(4, 2, dpi=100)
    figure.subplots().plot(records.runs["seed"].to_numpy())
    return Plot(figure, "It rises.", records.runs.select("seed"))


GALLERY = (
    Entry("line", draw_line, "A line", "figure 0", "The line.", "runs"),
    Entry("none", lambda _: None, "No line", "figure 1", "-", "XI runs"),
)


def make_report(folder: Path) -> Path:
    """Writes a study with runs, one that was never started and one that failed, and its
    report with two figures."""
    records = make_records(folder, *FAKES, on_disk=True)
    lost = {"variant": "XI-step-level-0.01", "game": "a", "frames": 1_000, "settings": {}}
    runs = [
        *records.plan["runs"],
        lost | {"id": "lost-zero", "folder": "lost-0", "seed": 0},
        lost | {"id": "lost-one", "folder": "lost-1", "seed": 1},
    ]
    study = {"name": "pages", "title": TITLE, "command": "sidequest study <pages>"}
    write_json(folder / "study.json", study | {"runs": runs})
    write_json(folder / "failures.json", {"lost-one": "no memory <left>"})
    records = read_records(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "GALLERY", GALLERY)
        return write_report(
            records, list(gallery.draw_gallery(records, folder / "figures"))
        )
