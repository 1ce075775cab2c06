"""What can be set, and the two presets: `PAPER` and `SMALL`.

Frozen dataclasses, one a component. The defaults are the paper's Table 1 where it has a
number; a field whose number is ours says so. Only `sidequest.runs` reads them: components
receive plain values. Budgets are in environment frames, everything else in agent steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from sidequest.errors import ConfigError


@dataclass(frozen=True)
class NetworkConfig:
    """Recurrent duelling Q-network."""

    channels: tuple[int, ...] = (32, 64, 128, 128)
    """Of the torso's convolutions, for images."""
    kernels: tuple[int, ...] = (7, 5, 5, 3)
    strides: tuple[int, ...] = (4, 2, 2, 1)
    pre_units: int = 512
    """Linear layer between torso and LSTM."""
    core_units: int = 512
    """LSTM."""
    post_units: int = 256
    """Linear layer between LSTM and heads; 0 for none."""
    head_units: int = 256
    """Each of the value and advantage branches of a duelling head."""
    recurrent: bool = True
    """False leaves the LSTM out: an ablation for tasks that need memory."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of convolutions and matrix products; parameters and targets stay float32. Ours;
    auto is bfloat16 on an accelerator and float32 on a CPU."""
    scan_unroll: int = 8
    """Steps of the LSTM in one iteration of its loop; a matter of speed alone. Ours."""


@dataclass(frozen=True)
class ActingConfig:
    """Collecting experience."""

    streams: int = 120
    """Environments side by side: the paper's number of actors."""
    pull_interval: int = 400
    """Steps of a stream between two looks at the learner's newest parameters."""


@dataclass(frozen=True)
class ReplayConfig:
    """Prioritised replay of sequences."""

    capacity: int = 4_000_000
    """Observations held."""
    block_length: int = 40
    """Sequences start this many steps apart; a sequence trains on two blocks."""
    prefix: int = 20
    """Burn-in steps before the trained ones."""
    priority_exponent: float = 0.9
    importance_exponent: float = 0.6
    ratio: float = 1.0
    """How often a sequence is replayed on average."""
    warm_up: int = 200_000
    """Observations in replay before learning starts. Ours."""


@dataclass(frozen=True)
class LearningConfig:
    """Multi-step double Q-learning."""

    n_step: int = 5
    discount: float = 0.997
    short_discount: float = 0.97
    """Of the explore mode Xγ."""
    batch_size: int = 64
    learning_rate: float = 2e-4
    adam_epsilon: float = 1e-8
    adam_b1: float = 0.9
    adam_b2: float = 0.999
    clip_norm: float = 40.0
    target_interval: int = 400
    """Updates between two copies of the parameters to the target network."""
    watkins: bool | None = None
    """Trace cutting at non-greedy actions; None: as in the paper, only with XI."""
    timeout_is_terminal: bool = True
    """Whether a time limit counts as the end of all reward, as in DQN's line of agents."""
    priority_mix: float = 0.9
    """Priority of a sequence: this share of the greatest TD error, the rest of the mean."""
    normalise_inputs: bool = True
    """Whether the torso sees (observation - mean) / spread of what was replayed so far.
    Ours; without it Ms. Pac-Man is not learned (docs/results/atari)."""
    normalise_values: bool = True
    """Whether Q = mean value + return scale * (output of the network). Ours."""


@dataclass(frozen=True)
class NoveltyConfig:
    """Random network distillation, for XI."""

    channels: tuple[int, ...] = (32, 64, 64)
    kernels: tuple[int, ...] = (8, 4, 3)
    strides: tuple[int, ...] = (4, 2, 1)
    units: int = 128
    downsampling: int = 2
    """Every n-th pixel in both directions."""


@dataclass(frozen=True)
class SwitchingConfig:
    """When to explore; what the variant's name leaves open."""

    rule: Literal["saturated", "printed"] = "saturated"
    """Of homeostasis. Ours; `printed` is Algorithm 1 to the letter."""
    promise_horizon: int = 5
    """k of the value promise. The paper gives none; this is the learner's n."""
    bandit: Literal["proportional", "ucb"] = "proportional"
    window: int | None = None
    """Episodes that a bandit looks back on; None: adaptive (160 for ucb)."""
    explore_arms: tuple[int, ...] = (1, 10, 100)
    exploit_arms: tuple[int, ...] = (10, 100, 1_000, 10_000)
    rate_arms: tuple[float, ...] = (0.1, 0.01, 0.001, 0.0001)


@dataclass(frozen=True)
class EvaluationConfig:
    """The greedy evaluator and what is recorded."""

    interval: int = 1_000_000
    """Frames between two evaluations, in compiled games. On emulators the evaluator never
    stops, as in the paper."""
    episodes: int = 10
    """Of one evaluation, side by side; on emulators, how many of them it plays on. Ours."""
    traces: int = 200
    """Whole episodes of which every step is recorded, spread over the run."""


@dataclass(frozen=True)
class Config:
    """Everything that a run can be told, besides variant, game, seed and budget."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    novelty: NoveltyConfig = field(default_factory=NoveltyConfig)
    switching: SwitchingConfig = field(default_factory=SwitchingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


PAPER = Config()
"""The paper's Table 1, number for number."""

SMALL = Config(
    # For games of 10 x 10 pixels on a laptop: a network of about 0.2 M parameters, short
    # sequences, and a larger step and ratio, since a budget of minutes has few updates.
    network=NetworkConfig(
        channels=(16,),
        kernels=(3,),
        strides=(1,),
        pre_units=64,
        core_units=64,
        post_units=64,
        head_units=64,
        dtype="float32",
        scan_unroll=1,
    ),
    acting=ActingConfig(streams=16, pull_interval=20),
    replay=ReplayConfig(
        capacity=100_000, block_length=20, prefix=10, ratio=2.0, warm_up=5_000
    ),
    learning=LearningConfig(
        batch_size=16,
        discount=0.99,
        short_discount=0.9,
        learning_rate=1e-3,
        target_interval=100,
        timeout_is_terminal=False,
        normalise_inputs=False,
        normalise_values=False,
    ),
    novelty=NoveltyConfig(
        channels=(16,), kernels=(3,), strides=(1,), units=64, downsampling=1
    ),
    switching=SwitchingConfig(explore_arms=(1, 10, 50), exploit_arms=(10, 50, 250, 1_000)),
    evaluation=EvaluationConfig(interval=50_000, episodes=8),
)

SMALL_FRAMES = Config(
    # For Atari's raw frames on a machine without a GPU: enough to see everything work.
    network=NetworkConfig(
        channels=(8, 16, 16),
        kernels=(8, 4, 3),
        strides=(4, 2, 2),
        pre_units=64,
        core_units=64,
        post_units=64,
        head_units=64,
        scan_unroll=1,
    ),
    acting=ActingConfig(streams=8, pull_interval=20),
    replay=ReplayConfig(
        capacity=20_000, block_length=20, prefix=10, ratio=1.0, warm_up=1_000
    ),
    learning=LearningConfig(batch_size=8, target_interval=100),
    novelty=NoveltyConfig(channels=(8, 16), kernels=(8, 4), strides=(4, 2), units=32),
    evaluation=EvaluationConfig(episodes=4, traces=20),
)

PRESETS = {"paper": PAPER, "small": SMALL, "small-frames": SMALL_FRAMES}


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """`{"replay.prefix": 20, ...}`: every setting by its dotted name."""
    flat: dict[str, Any] = {}
    for entry in fields(config):
        value = getattr(config, entry.name)
        if is_dataclass(value):
            flat |= flatten(value, f"{prefix}{entry.name}.")
        else:
            flat[prefix + entry.name] = value
    return flat


def change(config: Config, **settings: Any) -> Config:
    """A copy with some settings changed: `change(SMALL, **{"replay.ratio": 1.0})`."""
    known = flatten(config)
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"no setting {name!r}; there are {', '.join(known)}")
        component, entry = name.split(".")
        part = replace(getattr(config, component), **{entry: value})
        config = replace(config, **{component: part})
    return config


def recorded(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`flatten` of the config that a run's `run.json` holds, whichever version wrote it."""
    flat = {
        f"{component}.{name}": value
        for component, entries in settings.items()
        for name, value in entries.items()
    }
    if flat:
        # Earlier versions had one setting for both, and before that none.
        for former in ("network.standardised", "learning.centred"):
            flat.pop(former, None)
        both = flat.pop("learning.standardised", False)
        flat.setdefault("learning.normalise_inputs", both)
        flat.setdefault("learning.normalise_values", both)
    return flat


def from_dict(settings: Mapping[str, Mapping[str, Any]]) -> Config:
    """The config that a run's `run.json` holds."""

    def revive(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    return change(
        Config(), **{name: revive(value) for name, value in recorded(settings).items()}
    )
