"""A board that remembers, and jobs that need no agent."""

from sidequest.study.grids import Grid, Study, jobs_of
from sidequest.study.planning import Group


class Memory:
    """A board that keeps what it is told."""

    def __init__(self):
        self.told: list[tuple] = []

    def note(self, text):
        self.told.append(("note", text))

    def begin(self, group):
        self.told.append(("begin", len(group.jobs)))

    def say(self, group, text):
        self.told.append(("say", text))

    def show(self, group, progress):
        self.told.append(("show", progress.frames))

    def end(self, group, kind, reason):
        self.told.append(("end", kind, reason))

    @property
    def ends(self) -> list[tuple]:
        return [one[1:] for one in self.told if one[0] == "end"]


def jobs(count: int, variant: str = "XU-step-level-0.01", frames: int = 1_000):
    grid = Grid((variant,), ("probe:constant",))
    return jobs_of(Study("fake", "A fake", (grid,), count, frames, "small"))


def group(count: int) -> Group:
    return Group(jobs(count))
