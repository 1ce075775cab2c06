"""Traces made by hand."""

import numpy as np

from sidequest.types import Trace


def trace_of(text: str) -> Trace:
    """Modes as letters, with a bar before each new episode: `"GGXX|XG"`."""
    episodes = text.split("|")
    modes = np.array([letter == "X" for episode in episodes for letter in episode])
    first = np.zeros(len(modes), bool)
    first[np.cumsum([0, *map(len, episodes[:-1])])] = True
    steps = np.arange(len(modes), dtype=np.float32)
    nothing = np.full(len(modes), np.nan, np.float32)
    return Trace(modes, first, nothing, np.zeros_like(steps), np.zeros_like(steps))
