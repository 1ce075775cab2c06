"""`sidequest figures`: draws figures and says where they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from sidequest.cli.options import option, refuse
from sidequest.errors import InvalidRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sidequest.figures.illustrations import Scene, Stage
    from sidequest.figures.reading import Records
    from sidequest.types import Trace

ILLUSTRATIONS = "illustrations"


def figures(
    what: Annotated[Positional[str], option("WHAT")],
    /,
    out: Annotated[Path | None, option("FOLDER")] = None,
    only: Annotated[tuple[str, ...], option("NAME …")] = (),
) -> None:
    """Draws figures as PNG and SVG, and prints the path of each file.

    All figures of a study come with its report; its path is then the last line.

    Args:
        what: A study's folder, or any folder with runs below it, finished or not: all
            figures of the paper that the runs allow, and more. Or `illustrations`: the
            paper's figures 1 and 2, with 2's appendix version, and a picture in brief, all
            drawn by running the real controllers on a made-up stream.
        out: The folder to write to; made if it is not there. By default WHAT/figures, or
            figures for the illustrations.
        only: Names of figures to draw, such as aggregate or explore-space; by default all.
    """
    if what == ILLUSTRATIONS:
        refuse("it names figures of runs", only=only)
    from sidequest.figures.style import SUFFIXES, save

    drawn = illustrations() if what == ILLUSTRATIONS else study_figures(Path(what), only)
    if out is None:
        out = Path("figures") if what == ILLUSTRATIONS else Path(what) / "figures"
    for name, figure in drawn:
        for suffix in SUFFIXES:
            try:
                print(save(figure, out / f"{name}{suffix}"), flush=True)
            except OSError as error:
                raise InvalidRequest(f"cannot write to {out}: {error.strerror}") from error
    if what != ILLUSTRATIONS and not only:
        from sidequest.figures.report.page import write_report

        print(write_report(Path(what), out))


def study_figures(folder: Path, only: tuple[str, ...]) -> Iterator[tuple[str, Figure]]:
    """The gallery for the runs below a folder; says on stderr what cannot be drawn yet."""
    from sidequest.figures.gallery import GALLERY

    names = [entry.name for entry in GALLERY]
    wrong = [name for name in only if name not in names]
    if wrong:
        raise InvalidRequest(f"no figure {wrong[0]!r}; there are {', '.join(names)}")
    if not folder.is_dir():
        raise InvalidRequest(
            f"cannot draw {str(folder)!r}: name a folder of runs, or {ILLUSTRATIONS}"
        )
    records = read_and_warn(folder)
    if not records.runs:
        raise InvalidRequest(f"there is no run below {folder}")
    for entry in GALLERY:
        if only and entry.name not in only:
            continue
        figure = entry.draw(records)
        if figure is None:
            print(f"{entry.name}: {entry.shows(records)}", file=sys.stderr, flush=True)
        else:
            yield entry.name, figure


def read_and_warn(folder: Path) -> Records:
    """The runs below a folder; says on stderr which of them cannot be read.

    Raises:
        CorruptFile: If none can.
    """
    from sidequest.errors import CorruptFile
    from sidequest.figures.reading import read_records

    records = read_records(folder)
    if records.left_out and not records.runs:
        raise CorruptFile("\n".join(one.reason for one in records.left_out))
    for one in records.left_out:
        print(f"left out: {one.reason}", file=sys.stderr, flush=True)
    return records


def illustrations() -> Iterator[tuple[str, Figure]]:
    """Yields the paper's illustrations with the names of their files."""
    from sidequest.figures.illustrations import draw_all

    return draw_all(simulate)


def simulate(stage: Stage, scene: Scene) -> Trace:
    """Runs the real controllers through a scene; keeps the episodes to be shown."""
    from sidequest.figures.illustrations import last_steps, surprise
    from sidequest.switching.rehearsal import rehearse
    from sidequest.switching.variants import parse

    unsure = surprise(stage, late=scene.late)
    trace = rehearse(
        parse(scene.variant),
        steps=len(unsure),
        episode=stage.episode,
        seed=scene.seed,
        surprise=unsure,
    )
    return last_steps(trace, stage.steps)
