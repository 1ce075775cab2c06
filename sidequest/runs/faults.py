"""What can end a run before its time, each with its exit code. Nothing here needs JAX.

A fault is told in one line, and none costs what was recorded before it.
"""

import os
import shlex
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Exit codes of the command; those above 60 are those of `sysexits.h`."""

    BAD_INPUT = 2
    """What was asked for cannot be."""
    NO_CHECKPOINT = 66
    """A run cannot go on: none of its checkpoints can be used, or what it, or its study,
    left on the disk cannot be read."""
    NOT_FINITE = 70
    """Learning broke down."""
    MACHINE = 71
    """The device has too little memory, or an emulator died."""
    CANNOT_WRITE = 73
    """The disk is full, or the folder is read-only."""
    AGAIN = 75
    """Saved, or somebody else is at it: start again later."""


class RunFault(Exception):
    """A run ends here; the message is one line for people."""

    exit = Exit.MACHINE


class NoCheckpoint(RunFault):
    """None of a run's checkpoints can be used, or a file that it left cannot be read."""

    exit = Exit.NO_CHECKPOINT


class NotFinite(RunFault):
    """Update after update was not finite."""

    exit = Exit.NOT_FINITE


class MachineFault(RunFault):
    """Too little device memory, or an emulator that died."""


class CannotWrite(RunFault):
    """The disk is full or the folder read-only."""

    exit = Exit.CANNOT_WRITE


class RunBusy(RunFault):
    """Another process is writing the folder."""

    exit = Exit.AGAIN


class Interrupted(RunFault):
    """A signal came; the run was saved."""

    exit = Exit.AGAIN


class DoesNotFit(RunFault):
    """A folder or a checkpoint is of another run than the one that was asked for."""

    exit = Exit.BAD_INPUT


def resume_command(folders: Iterable[Path]) -> str:
    """What to type to go on with runs."""
    return shlex.join(["sidequest", "train", "--resume", *map(str, folders)])


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """The fault for an error of the operating system, about a file in a run's folder."""
    from sidequest.runs.records import RUN_FILE  # which imports this file

    advice = (
        f"Nothing written before is lost; when there is room and permission, go on with: "
        f"{resume_command([path.parent])}"
        if os.path.exists(path.parent / RUN_FILE)
        else "No run was begun there: choose another folder with --out, or start again "
        "when there is room and permission"
    )
    return CannotWrite(f"cannot write {path}: {error.strerror or error}. {advice}")
