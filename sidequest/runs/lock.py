"""One process at a time writes a run's folder.

The lock is the operating system's own (`flock`), so that it ends with its holder, however
that ended: a lock file without a holder is taken over, whatever it says. What the file says
is for people: who holds it.
"""

import contextlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

from sidequest.errors import RunBusy, cannot_write

LOCK = ".lock"
BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def hold(folders: Iterable[Path]) -> Iterator[None]:
    """Makes the folders if need be, and holds all of them, or raises `RunBusy`."""
    with contextlib.ExitStack() as held:
        for folder in folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                descriptor = acquire(folder)
            except OSError as error:
                raise cannot_write(folder / LOCK, error) from error
            held.callback(release, folder, descriptor)
        yield


def acquire(folder: Path) -> int:
    """Takes the lock of one folder; returns its file descriptor."""
    import fcntl  # there is none on Windows, and reading records needs no lock

    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunBusy(f"{folder} is in use: {holder(path)} is writing it") from None
        # Whoever held it may have removed the file between our two calls.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                break
        os.close(descriptor)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(describe_process()).encode() + b"\n")
    return descriptor


def release(folder: Path, descriptor: int) -> None:
    """Gives the lock back, and leaves no trace; a folder that stayed empty goes too."""
    with contextlib.suppress(FileNotFoundError):
        (folder / LOCK).unlink()
    os.close(descriptor)
    with contextlib.suppress(OSError):
        folder.rmdir()


def describe_process() -> dict[str, str | int]:
    boot = BOOT.read_text().strip() if BOOT.exists() else ""
    return {"pid": os.getpid(), "host": platform.node(), "boot": boot}


def holder(path: Path) -> str:
    """Who holds a lock, as far as its file tells."""
    try:
        said = json.loads(path.read_text())
        return f"process {said['pid']} on {said['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
