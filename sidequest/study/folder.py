"""A study's folder: what was planned, what is done, what failed.

study.json        the plan: name, title, command, and every run with its folder
failures.json     runs that failed at the last start, each with a one-line reason
failures.txt      the same with tracebacks
VARIANT/GAME/seed-N/     a run (see `sidequest.runs.records`)
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sidequest.runs.faults import CannotWrite, NoCheckpoint
from sidequest.runs.records import now, write_json
from sidequest.study.grids import Job, Study

STUDY_FILE = "study.json"
FAILURES_FILE = "failures.json"
TRACES_FILE = "failures.txt"


def enrol(folder: Path, study: Study, jobs: Sequence[Job]) -> None:
    """Writes the plan; runs that an earlier start had planned stay in it."""
    before = read_plan(folder)
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


def read_plan(folder: Path) -> dict[str, Any]:
    """What study.json says; empty if there is none.

    Raises:
        NoCheckpoint: If it is there and cannot be read.
    """
    path = folder / STUDY_FILE
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(run["id"], str) for run in plan.get("runs", [])):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise NoCheckpoint(
            f"{path} cannot be read; move this file away, and the same command writes it "
            f"anew: runs that have finished are not made again"
        ) from None
    return plan


def missing(folder: Path, jobs: Iterable[Job]) -> list[Job]:
    """Jobs without a finished run.

    Raises:
        DoesNotFit: If a run there is not what is planned, such as of another budget.
    """
    from sidequest.runs.resume import identity, is_finished

    return [
        job
        for job in jobs
        if not is_finished(
            folder / job.folder, identity(job.spec(folder), job.config, job.frames)
        )
    ]


def write_failures(folder: Path, reasons: Mapping[str, str], traces: Iterable[str]) -> None:
    """Says what failed at this start; what an earlier start said is gone."""
    replace_json(folder / FAILURES_FILE, reasons)
    traces = list(traces)
    if traces:
        (folder / TRACES_FILE).write_text("\n".join(traces), encoding="utf-8")
    else:
        (folder / TRACES_FILE).unlink(missing_ok=True)


def replace_json(path: Path, content: Mapping[str, Any]) -> None:
    """As `write_json`, also while another runner writes the same file."""
    own = path.with_name(f".{os.getpid()}-{path.name}")
    write_json(own, content)
    os.replace(own, path)
