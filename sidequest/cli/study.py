"""`sidequest study`: a whole study by name, from nothing to its report."""

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from sidequest.cli.options import (
    Flag,
    check_range,
    leave_gpus_to_others,
    option,
    read_count,
    refuse,
    refuse_empty,
    use_all_cores,
    use_compilation_cache,
)
from sidequest.errors import Exit, InvalidRequest
from sidequest.records import available_cores

_FAILED = 1  # exit code: some runs failed; all others are there


def study(
    name: Annotated[Positional[str], option("[NAME]")] = "quick",
    /,
    out: Annotated[Path | None, option("FOLDER", "studies/NAME")] = None,
    games: Annotated[tuple[str, ...] | None, option("GAME …")] = None,
    variants: Annotated[tuple[str, ...] | None, option("VARIANT …")] = None,
    seeds: Annotated[int | None, option("NUMBER")] = None,
    seed: Annotated[int | None, option("NUMBER", 0)] = None,
    frames: Annotated[str | None, option("FRAMES")] = None,
    workers: Annotated[int | None, option("NUMBER")] = None,
    cluster: Annotated[str | None, option("ADDRESS")] = None,
    dry_run: Flag = False,
    list: Flag = False,
    quiet: Flag = False,
) -> int | None:
    """Trains the missing runs of a study, draws its figures and writes its report.

    The same command resumes the study. The last line is the report's path.

    A failed run does not stop the others; the exit code is then 1.

    For example:
      sidequest study small --dry-run
      sidequest study atari --games ms_pacman --seeds 1 --seed 2

    Args:
        name: Name of a study; --list shows all names.
        out: The study's folder.
        games: Only these games. A game that the study lacks gets all variants.
        variants: Only these variants. A variant that the study lacks runs on all games.
        seeds: How many seeds of each variant, instead of the study's number.
        seed: The first of these seeds. With it you can run a study in pieces, on several
            machines. Copied into one folder, the pieces are one study.
        frames: Environment frames of each run, such as 500k, instead of the study's.
        workers: Number of processes on this machine, each with its share of the cores and
            a GPU. Processes on one GPU split its memory. By default this process does all
            the work, but the studies atari and gpu start several.
        cluster: Address of a Ray cluster that does the work, such as auto or HOST:6379.
        dry_run: Only list what would be run, and estimate time and memory from a short
            measurement.
        list: Only list the studies.
        quiet: Print lines instead of a moving bar.
    """
    from sidequest.study import scheduler
    from sidequest.study.studies import find, jobs_of, narrow

    refuse_empty(games=games, variants=variants)
    if list:
        grid = dict(games=games, variants=variants, seeds=seeds, seed=seed, frames=frames)
        where = dict(workers=workers, cluster=cluster, out=out, dry_run=dry_run)
        refuse("--list only lists", **grid, **where)
        return _print_list()
    if dry_run:
        refuse("--dry-run measures on this machine", cluster=cluster)
    check_range("seeds", seeds, 1, 10_000)
    check_range("seed", seed, 0)
    budget = None if frames is None else read_count(frames, "--frames")
    chosen = find(name)
    if workers is not None and (workers < 1 or cluster is not None):
        raise InvalidRequest("--workers is 1 or more, and not together with --cluster")
    if cluster is not None:
        from sidequest.study.cluster import check_address

        check_address(cluster)
    if cluster is None and workers is None:
        workers = chosen.workers and min(chosen.workers, available_cores())
    use_compilation_cache()  # these before a game of the user's starts JAX
    if dry_run or workers or cluster is not None:
        leave_gpus_to_others()
    else:
        use_all_cores()
    chosen = narrow(chosen, games or (), variants or (), seeds, seed, budget)
    jobs_of(chosen)  # refuses settings that do not fit the games
    folder = out or Path("studies", chosen.name.replace("/", "-"))
    if dry_run:
        from sidequest.study.estimate import forecast

        print(forecast(chosen, folder, workers or 1))
        return None
    summary = scheduler.run(chosen, folder, workers=workers, cluster=cluster, quiet=quiet)
    print(_write_report(folder))
    return _conclude(summary.failures, summary.busy, folder)


def _write_report(folder: Path) -> Path:
    """Draws figures and writes the report; returns its path."""
    from sidequest.cli.figures import read_and_warn
    from sidequest.figures.gallery import draw_gallery
    from sidequest.figures.report import write_report

    pictures = folder / "figures"
    print(f"drawing figures into {pictures} …", file=sys.stderr, flush=True)
    records = read_and_warn(folder)
    return write_report(records, list(draw_gallery(records, pictures)))


def _conclude(failures: dict[str, str], busy: list[str], folder: Path) -> int | None:
    """Says on standard error what is missing; returns the exit code."""
    from sidequest.records import TRACEBACKS_FILE
    from sidequest.wording import plural

    for name, reason in failures.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    if failures:
        count = plural(len(failures), "run")
        print(
            f"{count} failed; tracebacks are in {folder / TRACEBACKS_FILE}", file=sys.stderr
        )
    if busy:
        names = ", ".join(busy[:3]) + " …" * (len(busy) > 3)
        runs = plural(len(busy), "run")
        print(f"another process is training {runs}: {names}", file=sys.stderr)
    return _FAILED if failures else int(Exit.RETRY) if busy else None


def _print_list() -> None:
    """Prints a table of all studies."""
    from rich.console import Console
    from rich.table import Table

    from sidequest.study.studies import STUDIES, jobs_of
    from sidequest.wording import short

    table = Table(box=None, pad_edge=False)
    for heading in ("study", "what"):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "games", "frames"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in STUDIES.values():
        if not one.name.endswith("/tiny"):
            runs = len(jobs_of(one))
            cells = (runs, len(one.games), short(runs * one.frames))
            table.add_row(one.name, one.title, *map(str, cells))
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    print("\nEach has a version of test size: NAME/tiny.")
