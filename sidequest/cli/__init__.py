"""The command `sidequest`. One module a subcommand; each loads what it needs when it runs.

A subcommand is a function: its arguments are the options, its docstring is the help, and
what it returns, if anything, is the exit code. Faults in what the user typed go to
standard error as one message and exit with 2; those that end a run before its time exit
with the other codes of `sidequest.errors`.
"""

import contextlib
import errno
import inspect
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from sidequest.errors import Exit, SidequestError

COMMANDS = {
    "study": "runs a whole study of the paper's variants, and writes its report",
    "train": "trains agents on a game and leaves records",
    "evaluate": "plays greedy episodes with a run's parameters",
    "watch": "films one episode of a run's agent",
    "games": "lists the games",
    "explain": "says in plain English what a variant does, and shows it",
    "figures": "draws figures",
    "bench": "measures speed",
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console script."""
    if arguments is None:
        arguments = sys.argv[1:]
        # Python's own way, an exception, gets lost inside callbacks of compiled code. A run
        # that has something to save listens to signals by itself.
        signal.signal(signal.SIGINT, leave_at_once)
    open_closed_streams()
    import tyro

    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help"):
        print(overview())
        return
    if name == "--version":
        import sidequest

        print(sidequest.__version__)
        return
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        fail(f"no command {name!r}.{hint} There are: {', '.join(COMMANDS)}")
    from sidequest.cli.options import MARKERS, flowing

    command = getattr(import_module(f"sidequest.cli.{name}"), name)
    bare = inspect.unwrap(command)  # a type checker may have wrapped it
    bare.__doc__ = flowing(bare.__doc__ or "")
    try:
        code = tyro.cli(
            command, args=arguments[1:], prog=f"sidequest {name}", config=MARKERS
        )
    except BrokenPipeError:
        code = 0  # whoever read the output, such as `head`, has enough
    except SidequestError as error:
        fail(str(error), error.exit_code)
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        fail(f"{error.filename}: {error.strerror}", Exit.CANNOT_WRITE)
    leave(code)


# The disk is full, or what is asked for is no place to write to.
CANNOT_WRITE = {
    *(errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG),
}


def leave_at_once(*_) -> NoReturn:
    shown = b"\x1b[?25h" if os.isatty(2) else b""  # the cursor, if a panel has hidden it
    os.write(2, shown + b"\ninterrupted\n")
    os._exit(128 + signal.SIGINT)


def fail(message: str, code: Exit = Exit.INVALID) -> NoReturn:
    with contextlib.suppress(BrokenPipeError):
        print(message, file=sys.stderr)
    leave(int(code))


def leave(code: int | None) -> NoReturn:
    """Ends with this exit code, even if nobody reads what is left to be said."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def open_closed_streams() -> None:
    """Keeps the numbers of streams that were closed, as by `2>&-`, from other files.

    Else the next file to be opened, perhaps a table, would get what is said to people.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            setattr(sys, name, open(number, "r" if name == "stdin" else "w"))


def overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    rows = [f"  {name:<{width}}{text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: sidequest COMMAND …",
            "",
            "When should an agent explore? Mode-switching exploration, in JAX.",
            "",
            *rows,
            "",
            "sidequest COMMAND --help says more about each.",
        ]
    )
