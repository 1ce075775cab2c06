"""`sidequest study`: a whole study by name, from nothing to its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from sidequest.cli.options import Flag, option, refuse_unused
from sidequest.cli.settings import read_count, use_all_cores, use_compilation_cache
from sidequest.errors import InvalidRequest

if TYPE_CHECKING:
    from sidequest.study.conduct import Tally
    from sidequest.study.grids import Job, Study

FAILED = 1  # exit code: some runs failed; all others are there


def study(
    name: Annotated[Positional[str], option("[NAME]")] = "quick",
    /,
    out: Annotated[Path | None, option("FOLDER", "studies/NAME")] = None,
    games: Annotated[tuple[str, ...], option("GAME …")] = (),
    variants: Annotated[tuple[str, ...], option("VARIANT …")] = (),
    seeds: Annotated[int | None, option("NUMBER")] = None,
    frames: Annotated[str | None, option("FRAMES")] = None,
    workers: Annotated[int | None, option("NUMBER")] = None,
    cluster: Annotated[str | None, option("ADDRESS")] = None,
    dry_run: Flag = False,
    list: Flag = False,
    quiet: Flag = False,
) -> int | None:
    """Runs what is missing of a study, then draws its figures and writes its report.

    Started again, it goes on with the rest. The last line is the report's path.

    A run that fails does not stop the others; the exit code is then 1.

    Args:
        name: A study by name; --list shows them all.
        out: The study's folder.
        games: Only these games; one that the study does not have gets all its variants.
        variants: Only these variants; one that the study does not have runs on all games.
        seeds: How many seeds of each variant, instead of the study's number.
        frames: Environment frames of each run, such as 500k, instead of the study's.
        workers: So many processes on this machine, each with its share of the cores.
        cluster: Address of a Ray cluster that does the work, such as auto or HOST:6379.
        dry_run: Only say what would be run, and from a short measurement how long it takes.
        list: Only list the studies.
        quiet: Lines instead of a moving bar.
    """
    from sidequest.study.grids import jobs_of

    grid = {"games": games, "variants": variants, "seeds": seeds, "frames": frames}
    place = {"workers": workers, "cluster": cluster}
    if list:
        refuse_unused(grid | place | {"out": out, "dry_run": dry_run}, "--list only lists")
        print_list()
        return None
    if dry_run:
        refuse_unused({"cluster": cluster}, "--dry-run measures on this machine")
    chosen = choose(name, games, variants, seeds, frames)
    check_crew(workers, cluster)
    jobs = jobs_of(chosen)
    folder = out or Path("studies", chosen.name.replace("/", "-"))
    use_compilation_cache()
    if not workers and cluster is None:
        use_all_cores()
    if dry_run:
        from sidequest.study.estimate import forecast

        print(forecast(chosen, jobs, folder, workers or 1))
        return None
    tally = run(chosen, jobs, folder, workers, cluster, quiet)
    print(finish(folder))
    return conclude(tally, folder)


def choose(
    name: str,
    games: tuple[str, ...],
    variants: tuple[str, ...],
    seeds: int | None,
    frames: str | None,
) -> Study:
    """The study that was named, with what was typed in place of its own."""
    from sidequest.errors import UnknownStudy
    from sidequest.study.grids import narrow
    from sidequest.study.studies import find

    if seeds is not None and not 1 <= seeds <= 10_000:
        raise InvalidRequest(f"--seeds is {seeds}; it is 1 or more")
    budget = None if frames is None else read_count(frames, "--frames")
    try:
        return narrow(find(name), games, variants, seeds, budget)
    except UnknownStudy as error:
        raise InvalidRequest(str(error)) from error


def check_crew(workers: int | None, cluster: str | None) -> None:
    """Refuses a crew that cannot be, before anything is made."""
    if workers is not None and (workers < 1 or cluster is not None):
        raise InvalidRequest("--workers is 1 or more, and not together with --cluster")
    if cluster is not None:
        from sidequest.study.cluster import check_address

        check_address(cluster)


def run(
    chosen: Study,
    jobs: tuple[Job, ...],
    folder: Path,
    workers: int | None,
    cluster: str | None,
    quiet: bool,
) -> Tally:
    """Makes the runs that are missing."""
    from sidequest.records import write_failures
    from sidequest.study.board import Account, Lines, Screen
    from sidequest.study.conduct import conduct
    from sidequest.study.crews import hire
    from sidequest.study.folder import enrol, missing
    from sidequest.study.planning import plan

    left = missing(folder, jobs)
    enrol(folder, chosen, jobs)
    frames = sum(job.frames for job in jobs)
    account = Account(
        runs=len(jobs),
        finished=len(jobs) - len(left),
        frames=frames,
        finished_frames=frames - sum(job.frames for job in left),
    )
    write_failures(folder, {}, [])
    moving = sys.stderr.isatty() and not quiet
    with Screen(account) if moving else Lines(account) as board:
        board.note(f"{chosen.name}: {chosen.title}")
        board.note(f"{account} in {folder}")
        crew, machine = hire(folder, board, workers, cluster)
        tally = conduct(plan(left, machine), crew, board)
    write_failures(folder, tally.failures, tally.traces)
    return tally


def finish(folder: Path) -> Path:
    """Draws figures and writes the report; returns its path."""
    from sidequest.cli.figures import read_and_warn
    from sidequest.figures.report.page import draw_gallery, write_report

    pictures = folder / "figures"
    print(f"drawing figures into {pictures} …", file=sys.stderr, flush=True)
    draw_gallery(read_and_warn(folder), pictures)
    return write_report(folder, pictures)


def conclude(tally: Tally, folder: Path) -> int | None:
    """Says what is not there, on standard error; returns the exit code."""
    from sidequest.errors import Exit
    from sidequest.records import TRACEBACKS_FILE

    for name, reason in tally.failures.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    if tally.failures:
        count = f"{len(tally.failures)} run{'s' * (len(tally.failures) > 1)} failed"
        print(f"{count}; tracebacks are in {folder / TRACEBACKS_FILE}", file=sys.stderr)
    if tally.busy:
        names = ", ".join(tally.busy[:3]) + " …" * (len(tally.busy) > 3)
        print(f"another process is at {len(tally.busy)} runs: {names}", file=sys.stderr)
    return FAILED if tally.failures else int(Exit.RETRY) if tally.busy else None


def print_list() -> None:
    """A table of all studies."""
    from rich.console import Console
    from rich.table import Table

    from sidequest.runs.display import short
    from sidequest.study.grids import jobs_of
    from sidequest.study.studies import STUDIES

    table = Table(box=None, pad_edge=False)
    for heading in ("study", "what"):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "games", "frames"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in STUDIES.values():
        if not one.name.endswith("/tiny"):
            runs = jobs_of(one)
            cells = (len(runs), len(one.games), short(sum(job.frames for job in runs)))
            table.add_row(one.name, one.title, *map(str, cells))
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    print("\nEach has a twin of test size: NAME/tiny.")
