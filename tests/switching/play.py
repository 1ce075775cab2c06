"""Plays the real controllers on streams written by hand, and draws what they did."""

import jax
import numpy as np

from sidequest.switching import metacontroller
from sidequest.switching.bandits import proportional
from sidequest.switching.controllers import make_controller
from sidequest.switching.metacontroller import (
    fix_arms,
    make_metacontroller,
    name_arms,
    variant_arrays,
)
from sidequest.switching.variants import parse
from sidequest.types import Signals

# One of each granularity, trigger, kind of amount and starting mode of the paper.
PAPER_VARIANTS = [
    "XU-experiment-level-G",
    "XU-experiment-level-X",
    "XU-episode-level-*",
    "XU-episode-level-0.3",
    "XU-step-level-0.01",
    "XU-intra(10,blind,100,G)",
    "XU-intra(10,blind,0.01,G)",
    "XU-intra(10,blind,n*,X)",
    "XU-intra(*,blind,p*,G)",
    "XU-intra(5%,blind,20%,G)",
    "XU-intra(=,blind,n*,G)",
    "XU-intra(=,blind,0.1,X)",
    "XU-intra(100,informed,p*,X)",
    "XU-intra(*,informed,p*,G)",
    "XU-intra(=,informed,0.1,G)",
    "XU-intra(10,informed:mismatch,0.1,G)",
    "XU-intra(10,informed:variance,0.1,X)",
]

CONTROLLER = make_controller()
PADDED = 64  # streams are filled up to a multiple of this, to share compiled programs


def make_signals(steps: int, episodes: str | int | None = None, **columns) -> Signals:
    """Rows of a stream. Columns not given are 0, the discount 1 (nothing is surprising).

    `episodes` is the length of every episode, or a drawing such as "...|..." with a dot
    for each step; without it the stream is one long episode.
    """
    is_first = np.zeros(steps, bool)
    is_first[0] = True
    if isinstance(episodes, int):
        is_first[::episodes] = True
    elif episodes is not None:
        lengths = [len(part) for part in episodes.split("|")]
        is_first[np.cumsum([0, *lengths[:-1]])] = True
    named = {"reward": 0.0, "discount": 1.0, "value": 0.0, "novelty": 0.0}
    named |= {"action_mismatch": 0.0, "value_variance": 0.0} | columns
    rows = {
        name: np.broadcast_to(np.asarray(column, np.float32), steps)
        for name, column in named.items()
    }
    return Signals(is_first=is_first, **rows)


def make_arm(variant: str, arms=None, length: float | None = None):
    """The arm of a variant whose bandits, if any, are fixed by `arms`."""
    parsed = parse(variant)
    arrays = fix_arms(variant_arrays(parsed), name_arms(parsed, arms))
    meta = make_metacontroller(lambda count: proportional(count, window=8))
    chances = meta.arm_probabilities(meta.init(arrays))
    if length is not None:
        chances = chances._replace(length=np.float32(length))
    return metacontroller._arm_of(np.zeros(3, np.int32), chances)


@jax.jit
def _play(key, arm, rows: Signals):
    def step(state, inputs):
        uniform, row = inputs
        mode, state = CONTROLLER.step(uniform, row, state)
        return state, (mode, state)

    uniforms = jax.random.uniform(key, rows.reward.shape)
    return jax.lax.scan(step, CONTROLLER.init(arm), (uniforms, rows))[1]


def play(variant: str, signals: Signals, *, seed: int = 0, arms=None, length=None):
    """Modes [T] of one stream, and the controller's state after every step."""
    steps = len(signals.reward)
    extra = -steps % PADDED
    rows = Signals(*(np.pad(column, (0, extra)) for column in signals))
    modes, states = _play(jax.random.key(seed), make_arm(variant, arms, length), rows)
    return np.asarray(modes)[:steps], jax.tree.map(lambda x: np.asarray(x)[:steps], states)


def draw_trace(modes, is_first) -> str:
    """ "GGXX|GG": a letter for each step, a bar where an episode begins."""
    letters = [
        ("|" if first else "") + ("X" if mode else "G")
        for mode, first in zip(modes, is_first, strict=True)
    ]
    return "".join(letters).removeprefix("|")


def trace(variant: str, episodes: str | int, *, seed=0, arms=None, length=None, **columns):
    """The trace of a variant on a stream whose episodes are drawn, or counted, by you.

    >>> trace("XU-intra(2,blind,3,G)", ".......|....")
    'GGGXXGG|GGGX'
    """
    steps = episodes if isinstance(episodes, int) else len(episodes.replace("|", ""))
    signals = make_signals(
        steps, None if isinstance(episodes, int) else episodes, **columns
    )
    modes, _ = play(variant, signals, seed=seed, arms=arms, length=length)
    return draw_trace(modes, signals.is_first)
