"""The command `sidequest`. A command is a function that loads what it needs when it runs.

Its arguments are the options, its docstring is the help, and what it returns, if anything,
is the exit code. Errors in what the user typed go to standard error as one message and exit
with 2; errors that end a run early exit with the other codes of `sidequest.errors`.
"""

import contextlib
import errno
import inspect
import io
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from sidequest.errors import Exit, SidequestError, missing_extra, unknown
from sidequest.runs.process import write_stderr

COMMANDS = {
    "study": "runs a whole study of the paper's variants and writes its report",
    "train": "trains agents on a game and records how they explore",
    "evaluate": "plays greedy episodes with a run's parameters",
    "watch": "films one episode of a run's agent",
    "games": "lists the games",
    "explain": "explains variants in plain English and compares them",
    "settings": "lists the agent's settings: default, range, meaning",
    "figures": "draws the figures of runs and writes a report",
    "bench": "measures speed",
}
_MODULES = {"games": "play", "evaluate": "play", "watch": "play", "settings": "explain"}
"""Modules of the commands that have none of their own name."""
_HELP = """usage: sidequest COMMAND …

When should an agent explore? Mode-switching exploration, in JAX.

{commands}

`sidequest COMMAND --help` explains a command, with examples. To begin:
  sidequest explain "XU-intra(10,informed,0.01,G)"
  sidequest train "XU-intra(10,informed,0.01,G)" --game classic:cartpole --frames 50k

To complete commands and options in bash (or zsh, tcsh):
  source <(sidequest --completion bash)"""
_SHELLS = ("bash", "zsh", "tcsh")
_OUTPUT = "standard output"
# The disk is full, or the path is no place to write to.
_CANNOT_WRITE = {
    *(errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG),
}


def main(arguments: list[str] | None = None) -> None:
    """Is the entry point of the console script."""
    if arguments is None:
        arguments = sys.argv[1:]
        # Python's own way, an exception, gets lost inside callbacks of compiled code. A run
        # that has something to save listens to signals itself.
        signal.signal(signal.SIGINT, _exit_at_once)
        open_closed_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack the γ of Xγ
            sys.stdout.reconfigure(errors="backslashreplace")
        sys.stderr = _Unwatched(sys.stderr)
    _exit(_run(*(arguments or ["--help"])))


def _run(name: str, *options: str) -> int | None:
    """Runs a command and returns its exit code."""
    try:
        return _dispatch(name, options)
    except ModuleNotFoundError as error:
        missing = missing_extra(f"`sidequest {name}`", error)
        if missing is error:
            raise
        _fail(str(missing))
    except SystemExit as ended:  # of tyro, after what it printed
        return int(ended.code or 0)
    except KeyboardInterrupt:  # of a study whose workers have saved already
        _exit_at_once()
    except BrokenPipeError:
        return 0  # the reader of the output, such as `head`, has enough
    except SidequestError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        _fail(f"{error.filename or _OUTPUT}: {error.strerror}", Exit.CANNOT_WRITE)


def _dispatch(name: str, options: Sequence[str]) -> int | None:
    if name in ("-h", "--help"):
        commands = "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())
        print(_HELP.format(commands=commands))
    elif name == "--version":
        import sidequest

        print(sidequest.__version__)
    elif name == "--completion":
        shell = options[0] if options else "bash"
        if shell not in _SHELLS:
            _fail(unknown("shell", shell, _SHELLS))
        _print_completion(shell)
    elif name in COMMANDS:
        import tyro

        from sidequest.cli.options import MARKERS

        _refuse_empty_words(options)
        prog = f"sidequest {name}"
        return tyro.cli(command_named(name), args=options, prog=prog, config=MARKERS)
    else:
        _fail(unknown("command", name, COMMANDS))


def _refuse_empty_words(options: Sequence[str]) -> None:
    """Refuses `--out ''` and `--out=`, which tyro would take for the current folder."""
    for before, word in itertools.pairwise(("", *options)):
        if not word or re.fullmatch("--[a-z-]+=", word):
            given = word[:-1] or before
            named = given if given.startswith("--") else "a word"
            _fail(f"{named} is empty; is a shell variable not set?")


def _print_completion(shell: str) -> None:
    """Prints a script that completes commands and options in a shell."""
    from tyro.extras import subcommand_cli_from_dict

    from sidequest.cli.options import MARKERS

    subcommand_cli_from_dict(
        {name: command_named(name) for name in COMMANDS},
        prog="sidequest",
        args=["--tyro-print-completion", shell],
        config=MARKERS,
    )


def command_named(name: str) -> Callable[..., int | None]:
    """Returns the function of a command, with its help as tyro shows it."""
    from sidequest.cli.options import join_lines

    command = getattr(import_module(f"sidequest.cli.{_MODULES.get(name, name)}"), name)
    bare = inspect.unwrap(command)  # a type checker may have wrapped it
    bare.__doc__ = join_lines(bare.__doc__ or "")
    return command


def _exit_at_once(*_) -> NoReturn:
    write_stderr("interrupted")
    os._exit(128 + signal.SIGINT)


class _Unwatched:
    """Standard error that drops what cannot be written: a run outlives a log on a full disk
    and a terminal that is gone."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _fail(message: str, code: Exit = Exit.INVALID) -> NoReturn:
    print(message, file=sys.stderr)
    _exit(code)


def _exit(code: int | None) -> NoReturn:
    """Exits with this code, whoever reads the last lines."""
    for stream in (sys.stdout, sys.__stderr__ or sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not code and stream is sys.stdout and error.errno in _CANNOT_WRITE:
                _fail(f"{_OUTPUT}: {error.strerror}", Exit.CANNOT_WRITE)
    sys.exit(None if code is None else int(code))


def open_closed_streams() -> None:
    """Keeps the numbers of streams that were closed, as by `2>&-`, from other files.

    Otherwise the next file to be opened, perhaps a table, would get messages for people.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            setattr(sys, name, open(number, "r" if name == "stdin" else "w"))
