"""A small study with a bit of everything, and its report."""

from pathlib import Path

from sidequest.figures.gallery import Entry
from sidequest.figures.report import page as report
from sidequest.figures.style import new_figure
from sidequest.records import write_json
from tests.figures.fakes import Fake, make_records

HOSTILE = "</script><img src=x onerror='window.hacked=1'>&\"$name"
TITLE = "A <b>bold</b> & small study"
SIGNAL_TEXT = "GGGGXXXXGGGXXG"
FAKES = (
    Fake("XU-step-level-0.01", "a", (1.0, 3.0), modes="GGXGGGGGXG"),
    Fake("XU-step-level-0.01", "b", (10.0, 30.0), modes="GXGG"),
    Fake("XU-intra(10,blind,p*,X)", "a", (5.0, 6.0), modes="XXGG", wobble=0.05),
    Fake("XU-intra(10,blind,n*,X)", "a", (7.0, 8.5), modes="XGGG"),
    Fake("XU-intra(10,informed,0.01,G)", "a", (100.0, 9.0), modes=SIGNAL_TEXT, ratio=1.05),
    Fake("XU-episode-level-*", "a", (4.0,), finished=False),
    Fake(HOSTILE, "a", (2.0, 2.5), modes="GX"),
)


def draw_line(records):
    figure = new_figure(4, 2, dpi=100)
    figure.subplots().plot([run.seed for run in records.runs])
    return figure


GALLERY = (
    Entry(
        "line", "A line", "figure 0", "The line.", draw_line, lambda records: "It rises."
    ),
    Entry("none", "No line", "figure 1", "-", lambda _: None, lambda _: "Needs XI runs."),
)


def make_study(folder: Path) -> Path:
    """Runs, a run that was never started, and one that failed."""
    make_records(folder, *FAKES)
    plan = report.read_records(folder)
    runs = [
        {
            "id": str(run.folder.relative_to(folder)),
            **{key: getattr(run, key) for key in ("variant", "game", "seed", "frames")},
            "folder": str(run.folder.relative_to(folder)),
            "settings": {},
        }
        for run in plan.runs
    ]
    lost = {"variant": "XI-step-level-0.01", "game": "a", "frames": 1_000, "settings": {}}
    runs += [
        lost
        | {"id": ("lost-zero", "lost-one")[seed], "folder": f"lost-{seed}", "seed": seed}
        for seed in (0, 1)
    ]
    study = {"name": "pages", "title": TITLE, "command": "sidequest study <pages>"}
    write_json(folder / "study.json", study | {"runs": runs})
    write_json(folder / "failures.json", {"lost-one": "no memory <left>"})
    return folder
