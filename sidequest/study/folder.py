"""A study's folder: what was planned, and what is done."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sidequest.errors import CannotWrite
from sidequest.records import STUDY_FILE, now, read_study, replace_json
from sidequest.runs.spec import is_finished
from sidequest.study.grids import Job, Study


def enrol(folder: Path, study: Study, jobs: Sequence[Job]) -> None:
    """Writes the plan; runs that an earlier start had planned stay in it."""
    before = read_study(folder)
    planned = {run["id"]: run for run in before.get("runs", [])}
    planned |= {job.id: describe(job) for job in jobs}
    plan = {
        "name": study.name,
        "title": study.title,
        "started": before.get("started") or now(),
        "command": " ".join(sys.argv),
        "preset": study.preset,
        "settings": dict(study.settings),
        "runs": list(planned.values()),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_json(folder / STUDY_FILE, plan)
    except OSError as error:
        raise CannotWrite(
            f"cannot write {folder / STUDY_FILE}: {error.strerror or error}. Runs that are "
            f"there stay as they are; choose another folder with --out, or start the same "
            f"command again when there is room and permission"
        ) from error


def describe(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "variant": str(job.variant),
        "game": job.game,
        "seed": job.seed,
        "frames": job.frames,
        "folder": job.folder.as_posix(),
        "settings": dict(job.settings),
    }


def missing(folder: Path, jobs: Iterable[Job]) -> list[Job]:
    """Jobs without a finished run.

    Raises:
        OtherRun: If a run there is not what is planned, such as of another budget.
    """
    return [job for job in jobs if not is_finished(job.spec(folder))]
