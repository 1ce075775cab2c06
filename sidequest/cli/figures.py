"""`sidequest figures`: draws figures and says where they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from sidequest.cli.options import option, refuse, refuse_empty
from sidequest.errors import CannotWrite, InvalidRequest, unknown

if TYPE_CHECKING:
    from sidequest.figures.data import Records

ILLUSTRATIONS = "illustrations"


def figures(
    what: Annotated[Positional[str], option("WHAT")],
    /,
    out: Annotated[Path | None, option("FOLDER")] = None,
    only: Annotated[tuple[str, ...] | None, option("NAME …")] = None,
) -> None:
    """Draws figures as PNG and SVG, and prints the path of each file.

    Without --only it also writes the report, and prints the report's path last.

    For example:
      sidequest figures studies/quick
      sidequest figures runs --only learning-curves --out pictures

    Args:
        what: Folder of a study, or any folder with runs below it, finished or not. Draws
            all figures of the paper that the runs allow, and more. Or `illustrations`, for
            the paper's figures 1 and 2, the appendix version of 2, and a summary picture.
            These show the real controllers in a made-up game.
        out: Folder for figures and report, created if missing. By default figures go to
            WHAT/figures and the report to WHAT; illustrations go to figures.
        only: Names of figures to draw, such as aggregate or explore-space. By default all.
    """
    refuse_empty(only=only)
    try:
        if what == ILLUSTRATIONS:
            refuse("it names figures of runs", only=only)
            draw_illustrations(out or Path("figures"))
        else:
            draw_study(Path(what), out, only or ())
    except BrokenPipeError:
        raise  # the reader of the paths, such as `head`, has enough
    except OSError as error:
        where = out or what
        raise CannotWrite(f"cannot write to {where}: {error.strerror}") from error


def draw_study(folder: Path, out: Path | None, only: tuple[str, ...]) -> None:
    """Draws the figures of runs, says on stderr what cannot be drawn, writes the report."""
    from sidequest.figures.gallery import GALLERY, draw_gallery

    names = [entry.name for entry in GALLERY]
    wrong = [name for name in only if name not in names]
    if wrong:
        raise InvalidRequest(unknown("figure", wrong[0], names))
    if not folder.is_dir():
        raise InvalidRequest(
            f"cannot draw {str(folder)!r}: name a folder of runs, or {ILLUSTRATIONS}"
        )
    records = read_and_warn(folder)
    if not len(records.runs):
        raise InvalidRequest(f"there is no run below {folder}")
    drawn = []
    for one in draw_gallery(records, out or folder / "figures", only):
        drawn.append(one)
        for path in one.paths:
            print(path, flush=True)
        if not one.paths:
            print(f"{one.entry.name}: {one.caption}", file=sys.stderr, flush=True)
    if not only:
        from sidequest.figures.report import write_report

        print(write_report(records, drawn, out))


def read_and_warn(folder: Path) -> Records:
    """Reads the runs below a folder; says on stderr which of them cannot be read.

    Raises:
        CorruptFile: If none can.
    """
    from sidequest.errors import CorruptFile
    from sidequest.figures.data import read_records
    from sidequest.records import has_digests

    records = read_records(folder)
    if records.left_out and not len(records.runs):
        raise CorruptFile("\n".join(one.reason for one in records.left_out))
    for one in records.left_out:
        print(f"left out: {one.reason}", file=sys.stderr, flush=True)
    unchecked = sum(not has_digests(info) for info in records.infos)
    if unchecked:
        note = f"{unchecked} of {len(records.infos)} runs were recorded without digests"
        print(f"{note}: their tables are unchecked", file=sys.stderr, flush=True)
    return records


def draw_illustrations(out: Path) -> None:
    """Draws the paper's illustrations."""
    from sidequest.figures.illustrations import draw_all
    from sidequest.figures.style import SUFFIXES, save

    for name, figure in draw_all():
        for suffix in SUFFIXES:
            print(save(figure, out / f"{name}{suffix}"), flush=True)
