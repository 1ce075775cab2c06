"""The command in a process of its own, with the tests' game: `python -m …child train …`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(*arguments: str, cache: Path | None = None) -> subprocess.Popen:
    """Starts the command."""
    return launch([sys.executable, "-m", "tests.reliability.child", *arguments], cache)


def launch(
    command: list[str], cache: Path | None = None, stderr=subprocess.PIPE
) -> subprocess.Popen:
    """Starts a process with the tests' cache of compiled programs, or with another."""
    environment = dict(os.environ)
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def pin() -> None:
    """To one core: one device, as in the tests' own process, and the same programs."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getppid() % len(cores)]})


def stop(
    process: subprocess.Popen, after: float, *signals: int, since="compiled in"
) -> str:
    """Sends signals some seconds after a line was seen; returns what was said."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if since in line:
            time.sleep(after)
            for number in signals or (signal.SIGKILL,):
                if process.poll() is None:
                    process.send_signal(number)
                    time.sleep(1.2)  # within a second, two signals count as one
            break
    rest, _ = process.communicate()[::-1]
    return said + rest


def unfinished(folder: Path) -> list[str]:
    return [
        str(path.parent)
        for path in sorted(folder.rglob("run.json"))
        if not json.loads(path.read_text())["finished"]
    ]


if __name__ == "__main__":
    pin()

    from sidequest.cli import main
    from sidequest.environments import registry
    from tests.reliability.harness import GAME
    from tests.runs.tiny import bargains

    registry.register(GAME, bargains)
    main()
