"""Where groups run; the crew that is always there is this process itself."""

import signal
from pathlib import Path

from sidequest.study.board import Board, Voice
from sidequest.study.conduct import Crew, Ending, Launch, attempt, launch_group
from sidequest.study.planning import Group, Machine, machine_here


class Alone:
    """Runs a group when it is waited for."""

    room = 1

    def __init__(self, folder: Path, board: Board, launch: Launch):
        self._folder, self._board, self._launch = folder, board, launch
        self._group: Group | None = None

    def start(self, group: Group) -> None:
        self._group = group

    def wait(self) -> Ending:
        assert self._group is not None
        group, self._group = self._group, None
        return attempt(group, self._folder, Voice(self._board, group), self._launch)

    def stop(self) -> None:
        pass  # what ran here has ended already


def hire(
    folder: Path, board: Board, workers: int | None, cluster: str | None
) -> tuple[Crew, Machine]:
    """The crew that was asked for, and what each of its groups may use."""
    if cluster is not None or workers is not None:
        # An exception, by which `conduct` has the others save; alone, `launch` listens.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
    if cluster is not None:
        from sidequest.study.cluster import join

        return join(cluster, folder, board)
    if workers is not None:
        from sidequest.study.workers import Workers

        crew = Workers(folder, board, workers)
        return crew, crew.machine
    return Alone(folder, board, launch_group), machine_here()
