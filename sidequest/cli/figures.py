"""`sidequest figures`: draws figures and says where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from sidequest.cli import Refusal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sidequest.figures.illustrations import Row
    from sidequest.figures.scenes import Scene, Stage

ILLUSTRATIONS = "illustrations"


def figures(
    what: Annotated[Positional[str], arg(metavar="WHAT")],
    *,
    out: Annotated[Path, arg(metavar="DIR")] = Path("figures"),
) -> None:
    """Draws figures as PNG and SVG, and prints the path of each file.

    Args:
      what: a folder of runs: their learning curves, finished or not. Or `illustrations`:
        the paper's figures 1 and 2, with 2's appendix version, and a picture in brief,
        all drawn by running the real controllers on a made-up stream.
      out: the folder to write to; made if it is not there.
    """
    from sidequest.figures.look import SUFFIXES, save

    for name, figure in illustrations() if what == ILLUSTRATIONS else curves(Path(what)):
        for suffix in SUFFIXES:
            try:
                print(save(figure, out / f"{name}{suffix}"), flush=True)
            except OSError as error:
                raise Refusal(f"cannot write to {out}: {error.strerror}") from error


def curves(folder: Path) -> Iterator[tuple[str, Figure]]:
    """Learning curves of the runs below a folder."""
    from sidequest.figures.curves import draw_curves, read_curves

    if not folder.is_dir():
        raise Refusal(
            f"cannot draw {str(folder)!r}: name a folder of runs, or {ILLUSTRATIONS}"
        )
    found = read_curves(folder)
    if not found:
        raise Refusal(f"no run below {folder} has been evaluated yet")
    yield "curves", draw_curves(found)


def illustrations() -> Iterator[tuple[str, Figure]]:
    """The paper's illustrations by the names of their files."""
    from sidequest.figures import scenes
    from sidequest.figures.illustrations import (
        Section,
        draw_design_space,
        draw_granularities,
        draw_in_brief,
    )

    def play_groups(stage: Stage, groups: tuple[scenes.Group, ...]) -> list[Section]:
        return [
            Section(group.title, group.choice, play(stage, *group.scenes))
            for group in groups
        ]

    stage = scenes.FIGURE_1
    yield "figure-1", draw_granularities(play(stage, *scenes.GRANULARITIES))
    stage = scenes.FIGURE_2
    sections = play_groups(stage, scenes.DESIGN_SPACE)
    yield "figure-2", draw_design_space(sections, play(stage, scenes.PROMISE))
    stage = scenes.FIGURE_2_APPENDIX
    sections = play_groups(stage, scenes.DESIGN_SPACE_APPENDIX)
    signals = play(stage, scenes.PROMISE, scenes.MISMATCH)
    yield "figure-2-appendix", draw_design_space(sections, signals)
    stage = scenes.README
    (signal,) = play(stage, scenes.UNSURE)
    yield "readme", draw_in_brief(play(stage, *scenes.IN_BRIEF), signal)


def play(stage: Stage, *cast: Scene) -> list[Row]:
    """Runs the real controllers through each scene; keeps the episodes to be shown."""
    from sidequest.figures.illustrations import Row
    from sidequest.figures.scenes import surprise
    from sidequest.figures.strips import last_steps
    from sidequest.switching.rehearsal import rehearse
    from sidequest.switching.variants import parse

    rows = []
    for scene in cast:
        unsure = surprise(stage, late=scene.late)
        trace = rehearse(
            parse(scene.variant),
            steps=len(unsure),
            episode=stage.episode,
            seed=scene.seed,
            surprise=unsure,
        )
        rows.append(Row(scene.label, scene.variant, last_steps(trace, stage.steps)))
    return rows
