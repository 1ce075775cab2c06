"""Every error that a user can meet: one line for people, and an exit code.

Nothing that was recorded before an error is lost. Nothing here needs JAX.
"""

import contextlib
import difflib
import os
import shlex
import traceback
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Exit codes of the command; those above 60 are those of `sysexits.h`."""

    INVALID = 2
    """The request is invalid: a name, a setting, or a folder of another run."""
    CORRUPT = 66
    """No checkpoint of a run can be used, or a file of a run or a study cannot be read."""
    DIVERGED = 70
    """Update after update was not finite."""
    MACHINE = 71
    """The device has too little memory, or an emulator died."""
    CANNOT_WRITE = 73
    """The disk is full, or the folder is read-only."""
    RETRY = 75
    """The run was saved, or another process holds it: start again later."""


class SidequestError(Exception):
    """An error whose message is shown to the user as one line."""

    exit_code = Exit.INVALID
    said = False
    """Whether it was shown already when it happened, since other runs were to follow."""


class InvalidRequest(SidequestError, ValueError):
    """A request cannot be met: there is no such game, say, or the folder holds a run of
    other settings. The message says why, and what can be done."""


class VariantError(SidequestError, ValueError):
    """A variant's name is not of the grammar; the message points at the fault."""


class ConfigError(SidequestError, ValueError):
    """Some settings are invalid; the message lists every fault."""


class CorruptFile(SidequestError):
    """A file of a run or a study cannot be read, or none of a run's checkpoints."""

    exit_code = Exit.CORRUPT


class Diverged(SidequestError):
    """Update after update was not finite."""

    exit_code = Exit.DIVERGED


class MachineError(SidequestError):
    """The device has too little memory, or an emulator died."""

    exit_code = Exit.MACHINE


class EnvironmentFault(MachineError):
    """A user's environment raised an error, or returned what cannot be learned from."""


class CannotWrite(SidequestError):
    """The disk is full or the folder read-only."""

    exit_code = Exit.CANNOT_WRITE


class RunBusy(SidequestError):
    """Another process is writing the folder."""

    exit_code = Exit.RETRY


class Interrupted(SidequestError):
    """A signal arrived; the runs were saved."""

    exit_code = Exit.RETRY


class MissingExtra(SidequestError, ImportError):
    """A package is needed that comes with an extra; the message says how to install it."""


_TRAIN = {
    *("ale_py", "equinox", "gymnasium", "gymnax", "jax", "jaxtyping", "jinja2"),
    *("matplotlib", "optax", "polars", "xminigrid"),
}


def missing_extra(what: str, error: ModuleNotFoundError) -> ImportError:
    """Returns the error that names the extra to install; any other error as it is."""
    package = (error.name or "").partition(".")[0]
    if package not in _TRAIN:
        return error
    return MissingExtra(f'{what} needs {package}: in the clone, pip install ".[train]"')


def resume_command(folders: Iterable[Path]) -> str:
    """Returns the command that resumes runs."""
    return shlex.join(["sidequest", "train", "--resume", *map(str, folders)])


def release_frames(error: BaseException) -> None:
    """Clears the variables of the functions that an error has ended. An error that is kept
    keeps them, and with them all the state of a run while others train."""
    cause: BaseException | None = error
    while cause:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def raise_together(failures: Sequence[SidequestError]) -> None:
    """Raises what ended some of several runs as one error, of the first one's kind."""
    if failures:
        together = type(failures[0])("\n".join(map(str, failures)))
        together.said = all(one.said for one in failures)
        raise together from failures[0]


def cannot_write(path: Path, error: Exception) -> CannotWrite:
    """Returns the error to raise when a file of a run or a study cannot be written."""
    advice = (
        "No run was started there: choose another folder with --out, or start again when "
        "there is room and permission"
    )
    if os.path.exists(path.parent / "run.json"):
        advice = (
            f"Nothing written before is lost; when there is room and permission, resume "
            f"with: {resume_command([path.parent])}"
        )
    elif os.path.exists(path.parent / "study.json"):
        advice = (
            "Existing runs are unchanged: start the same command again when there is room "
            "and permission"
        )
    reason = getattr(error, "strerror", None) or str(error) or repr(error)
    return CannotWrite(f"cannot write {path}: {reason}. {advice}")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of the file system into `cannot_write`: one of a full disk names no
    file."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def unknown(kind: str, name: str, choices: Iterable[str], lists: str = "") -> str:
    """Returns a message about an unknown name, such as `no figure 'agregate'; did you mean
    aggregate?`. If nothing is near, it has all choices, or the command that `lists` them.
    """
    choices = list(choices)
    near = difflib.get_close_matches(name.lower(), choices, 3, 0.6)
    there = f"`{lists}` lists them" if lists else f"there are {', '.join(choices)}"
    return f"no {kind} {name!r}; {f'did you mean {near[0]}?' if near else there}"
