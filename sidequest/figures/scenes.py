"""What the illustrations show: which variants, in which made-up stream.

Only names and numbers. Whoever calls has the real controllers play them, and hands back
one `Trace` a scene.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

WARM_UP = 20  # episodes played before those shown, so that averages have settled


class Scene(NamedTuple):
    """One variant, played in one stream."""

    variant: str
    label: str = ""
    seed: int = 0
    late: bool = False
    """Whether the agent is unsure late in each episode, or in the stage's patches."""


class Group(NamedTuple):
    """Scenes that differ in one choice of the name."""

    title: str
    choice: int
    """Which of the four in `intra(n_X, trigger, n_G, start)`."""
    scenes: tuple[Scene, ...]


class Stage(NamedTuple):
    """What the scenes of one figure share."""

    episode: int
    """Steps of an episode."""
    shown: int
    """Episodes that are drawn."""

    @property
    def steps(self) -> int:
        return self.episode * self.shown


def surprise(stage: Stage, *, late: bool) -> Float[np.ndarray, "T"]:
    """How unsure the agent is at each step: the same in every episode of the stream."""
    place = (np.arange(stage.episode) + 0.5) / stage.episode
    if late:
        one = 1.8 * place**3
    else:
        bumps = ((0.22, 0.7), (0.5, 0.35), (0.76, 1.0))
        one = sum(size * np.exp(-(((place - at) / 0.035) ** 2)) for at, size in bumps)
    return np.tile(np.asarray(one, np.float32), WARM_UP + stage.shown)


def group(title: str, choice: int, *variants: str) -> Group:
    return Group(title, choice, tuple(Scene(variant) for variant in variants))


FIGURE_1 = Stage(episode=100, shown=4)
GRANULARITIES = (
    Scene("XU-experiment-level-X", "A"),
    Scene("XU-episode-level-0.5", "B", seed=3),
    Scene("XU-step-level-0.2", "C", seed=5),
    Scene("XU-intra(5,blind,20,G)", "D"),
    Scene("XU-intra(5,informed:variance,0.05,G)", "E", seed=2, late=True),
    Scene("XU-intra(20,blind,80,G)", "F"),
    Scene("XU-intra(15,blind,0.1,X)", "G", seed=1),
)
"""C to F share p_X, D and E share med_X too; see the caption of figure 1."""

# Symmetric switching asks its trigger at every step, so that its signal has no gaps.
PROMISE = Scene("XU-intra(=,informed,0.01,G)", "value promise discrepancy")
MISMATCH = Scene("XU-intra(=,informed:mismatch,0.01,G)", "action mismatch")

FIGURE_2 = Stage(episode=400, shown=1)
DESIGN_SPACE = (
    group(
        "explore duration: how long an explore period lasts",
        0,
        "XU-intra(1,informed,0.01,X)",
        "XU-intra(10,informed,0.01,X)",
        "XU-intra(100,informed,0.01,X)",
    ),
    group(
        "trigger: what starts an explore period",
        1,
        "XU-intra(10,blind,0.01,X)",
        "XU-intra(10,informed,0.01,X)",
    ),
    group(
        "exploit duration: how often one starts",
        2,
        "XU-intra(10,informed,0.1,X)",
        "XU-intra(10,informed,0.01,X)",
        "XU-intra(10,informed,0.001,X)",
    ),
    group(
        "starting mode: how each episode begins",
        3,
        "XU-intra(10,informed,0.01,G)",
        "XU-intra(10,informed,0.01,X)",
    ),
)

FIGURE_2_APPENDIX = Stage(episode=300, shown=3)
DESIGN_SPACE_APPENDIX = (
    group(
        "explore duration: steps, a share of the episode, a bandit's choice, symmetric",
        0,
        "XU-intra(1,blind,100,G)",
        "XU-intra(10,blind,100,G)",
        "XU-intra(5%,blind,100,G)",
        "XU-intra(*,blind,100,G)",
        "XU-intra(=,blind,100,G)",
    ),
    group(
        "trigger: a clock, a coin, value promise, action mismatch, variance",
        1,
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,blind,0.01,G)",
        "XU-intra(10,informed,0.01,G)",
        "XU-intra(10,informed:mismatch,0.01,G)",
        "XU-intra(10,informed:variance,0.01,G)",
    ),
    group(
        "exploit duration: steps, a probability, a bandit's choice of either",
        2,
        "XU-intra(10,blind,10,G)",
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,blind,0.1,G)",
        "XU-intra(10,blind,n*,G)",
        "XU-intra(10,blind,p*,G)",
    ),
    group(
        "starting mode: exploit or explore",
        3,
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,blind,100,X)",
    ),
)

README = Stage(episode=300, shown=1)
UNSURE = PROMISE._replace(label="how unsure the agent is")
IN_BRIEF = (
    Scene("XU-step-level-0.2", "step by step, by a coin"),
    Scene("XU-episode-level-0.5", "whole episodes at a time"),
    Scene("XU-intra(15,blind,60,G)", "within episodes, by a clock"),
    Scene("XU-intra(15,informed,0.02,G)", "within episodes, when unsure"),
)
