"""What a training process shares with others: signals, and the folders that it writes.

**Signals.** The first SIGTERM, SIGHUP (a lost connection) or Ctrl-C asks the runs to save
and stop; the second ends the process at once. Python calls its own signal handlers between
two bytecode instructions, and a compilation or a chunk of training is one instruction of
many seconds. So a thread listens: the interpreter writes the number of every signal to a
pipe when it arrives.

**Folders.** One process at a time writes a run's folder. The lock is the operating system's
own (`flock`): it ends with its holder, however that ended. A lock file that nobody holds is
taken over, whatever it contains; its content tells people who holds it. A file system
without such locks, as some clusters have, keeps no processes apart.
"""

import contextlib
import errno
import json
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sidequest.errors import RunBusy, writing

SAVING = "saving after this block; a second signal exits at once"
LOCK = ".lock"
_HANGUP = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
SIGNALS = (signal.SIGINT, signal.SIGTERM, _HANGUP)
_HAS_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""What a file system without locks answers."""
_FILES_OF_A_RUN = 6
"""Its lock and its five tables, open as long as it trains."""
_OTHER_FILES = 256
_ONE_SIGNAL = 1.0
"""Seconds in which two signals are one: `timeout` signals a process, then its group."""


class StopSignal:
    """Notes signals while it is open; training polls `requested` between blocks."""

    def __init__(self, say: Callable[[str], None] | None = None):
        """Takes a function that shows, from a thread, that the first signal was received: a
        display that redraws its lines would write over what others print."""
        self.requested: str | None = None
        """Name of the signal that arrived, if one did."""
        self._say = say or write_stderr
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._listener: threading.Thread | None = None

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread may install handlers
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                self._before[number] = signal.signal(number, lambda *_: None)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_) -> None:
        if self._listener is None:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._before.clear()
        os.close(self._write)  # ends the listener
        self._listener.join()
        os.close(self._read)

    def _listen(self) -> None:
        first = 0.0
        while arrived := os.read(self._read, 1):
            if arrived[0] not in SIGNALS:
                continue
            if self.requested is None:
                self.requested, first = signal.Signals(arrived[0]).name, time.monotonic()
                with contextlib.suppress(Exception):  # a broken display must not end this
                    self._say(f"{self.requested}: {SAVING}")
            elif time.monotonic() - first >= _ONE_SIGNAL:
                write_stderr("exited at once; the last checkpoint is untouched")
                os._exit(128 + arrived[0])


def raise_on_signals() -> None:
    """Makes signals raise `KeyboardInterrupt`, in a process that waits for others and has
    to end them. Signals that are ignored, as by `nohup`, stay so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def write_stderr(text: str) -> None:
    """Writes to standard error without the locks of `print`, so that any thread may."""
    # A panel hides the cursor, and cannot show it again if the process ends here.
    cursor = "\x1b[?25h" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{cursor}\n{text}\n".encode())


@contextlib.contextmanager
def lock_folders(folders: Sequence[Path]) -> Iterator[None]:
    """Creates the folders if need be and locks all of them, or raises `RunBusy`."""
    _allow_open_files(_FILES_OF_A_RUN * len(folders) + _OTHER_FILES)
    with contextlib.ExitStack() as locks:
        for folder in folders:
            with writing(folder / LOCK):
                folder.mkdir(parents=True, exist_ok=True)
                descriptor = _acquire(folder)
            locks.callback(_release, folder, descriptor)
        yield


def _allow_open_files(count: int) -> None:
    """Raises the limit of open files, often 1,024 and less, to `count` if the system lets
    it."""
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _acquire(folder: Path) -> int:
    """Locks one folder and returns the file descriptor that holds the lock."""
    import fcntl  # Windows has none, and reading records needs no lock

    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunBusy(f"{folder} is in use: {_holder(path)} is writing it") from None
        except OSError as error:
            if error.errno not in _HAS_NO_LOCKS:
                os.close(descriptor)
                raise
        if _is_at(path, descriptor):
            break
        os.close(descriptor)  # the previous holder has removed the file meanwhile
    holder = {"pid": os.getpid(), "host": platform.node()}
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(holder).encode() + b"\n")
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    """Returns whether an open file still has this name."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(folder: Path, descriptor: int) -> None:
    """Unlocks a folder and leaves no trace; a folder that stayed empty is removed."""
    if _is_at(folder / LOCK, descriptor):
        (folder / LOCK).unlink()
    os.close(descriptor)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _holder(path: Path) -> str:
    """Returns who holds a lock, as far as its file tells."""
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
