"""Settings with their ranges, and the presets `PAPER`, `SMALL` and `SMALL_FRAMES`.

Frozen dataclasses, one a component. The defaults are the paper's Table 1 where it has a
number; a field whose number is ours says so. Components receive plain values, not configs.
Budgets are in environment frames, everything else in agent steps.
"""

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from sidequest.errors import ConfigError, unknown
from sidequest.switching.variants import RATE_ALLOWED, STEPS_ALLOWED


class _Range(NamedTuple):
    """The values that a setting may have, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _arms(low: float, high: float) -> _Range:
    return _Range(
        f"numbers from {low:g} to {high:g}, at least one",
        lambda arms: bool(arms) and all(low <= arm <= high for arm in arms),
    )


_Count: TypeAlias = Annotated[int, _Range("1 or more", lambda x: x >= 1)]
_Batch: TypeAlias = Annotated[int, _Range("1 to 65536", lambda x: 1 <= x <= 2**16)]
_Count0: TypeAlias = Annotated[int, _Range("0 or more", lambda x: x >= 0)]
_Share: TypeAlias = Annotated[float, _Range("between 0 and 1", lambda x: 0 <= x <= 1)]
_Decay: TypeAlias = Annotated[float, _Range("0 or more, and below 1", lambda x: 0 <= x < 1)]
_NotNegative: TypeAlias = Annotated[float, _Range("0 or more", lambda x: x >= 0)]
_Positive: TypeAlias = Annotated[float, _Range("above 0", lambda x: x > 0)]
_Ratio: TypeAlias = Annotated[float, _Range("0.001 to 1000", lambda x: 0.001 <= x <= 1e3)]
_Window: TypeAlias = Annotated[
    int | None, _Range("1 or more, or None", lambda x: x is None or x >= 1)
]
_StepArms: TypeAlias = Annotated[tuple[int, ...], _arms(*STEPS_ALLOWED)]
_RateArms: TypeAlias = Annotated[tuple[float, ...], _arms(*RATE_ALLOWED)]


@dataclass(frozen=True)
class NetworkConfig:
    """Recurrent duelling Q-network."""

    channels: tuple[int, ...] = (32, 64, 128, 128)
    """Channels of the torso's convolutions, for images."""
    kernels: tuple[int, ...] = (7, 5, 5, 3)
    """Width and height of their kernels."""
    strides: tuple[int, ...] = (4, 2, 2, 1)
    """Their strides."""
    pre_units: _Count = 512
    """Linear layer between torso and LSTM."""
    core_units: _Count = 512
    """Units of the LSTM."""
    post_units: _Count0 = 256
    """Linear layer between LSTM and heads; 0 for none."""
    head_units: _Count = 256
    """Units of each of the value and advantage branches of a duelling head."""
    recurrent: bool = True
    """False resets the LSTM at every step: an ablation for tasks that need memory. Ours."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of convolutions and matrix products; parameters and targets stay float32. auto
    is bfloat16 on an accelerator and float32 on a CPU. Ours."""
    scan_unroll: _Batch = 8
    """Steps of the LSTM in one iteration of its loop; a matter of speed alone. Ours."""


@dataclass(frozen=True)
class ActingConfig:
    """Collecting experience."""

    environments: _Count = 120
    """Environments side by side: the paper's number of actors."""
    sync_interval: _Count = 400
    """Steps of an environment between two syncs of the actors' parameters, rounded down to
    whole blocks of replay."""


@dataclass(frozen=True)
class ReplayConfig:
    """Prioritised replay of sequences."""

    capacity: _Count = 4_000_000
    """Observations held."""
    block_length: _Count = 40
    """Sequences start this many steps apart; a sequence trains on two blocks."""
    prefix: _Count0 = 20
    """Burn-in steps before the trained ones."""
    priority_exponent: _Share = 0.9
    """Sequences are drawn in proportion to priority to this power; 0: uniformly."""
    importance_exponent: _Share = 0.6
    """How far importance weights make up for that: 1 wholly, 0 not at all."""
    ratio: _Ratio = 1.0
    """How often a sequence is replayed on average."""
    warm_up: _Count0 = 200_000
    """Observations in replay before learning starts. Ours."""


@dataclass(frozen=True)
class LearningConfig:
    """Multi-step double Q-learning."""

    n_step: _Count = 5
    """Rewards in a target, before the bootstrapped value."""
    discount: _Share = 0.997
    """Discount of the exploit mode."""
    short_discount: _Share = 0.97
    """Discount of the explore mode Xγ."""
    batch_size: _Batch = 64
    """Sequences of one update."""
    learning_rate: _Positive = 2e-4
    """Step size of Adam."""
    adam_epsilon: _Positive = 1e-8
    """Added to the denominator of Adam's step."""
    adam_b1: _Decay = 0.9
    """Decay of Adam's mean gradient."""
    adam_b2: _Decay = 0.999
    """Decay of Adam's mean squared gradient."""
    clip_norm: _Positive = 40.0
    """Gradients of a greater norm are scaled down to it."""
    target_interval: _Count = 400
    """Updates between two copies of the parameters to the target network."""
    watkins: bool | None = None
    """Watkins' Q(λ) trace cutting; None: as in the paper, only with XI. It helps on
    MinAtar; without tolerance it can lose a far goal (docs/results/gpu_study,
    small_games)."""
    trace_tolerance: _NotNegative = 0.0
    """Where traces are cut, spares actions whose value is below the best by less than this
    share of it, as in soft Watkins' Q(λ). Ours."""
    timeout_is_terminal: bool = True
    """Whether a time limit ends the return, as in DQN and its successors. Ours."""
    priority_mix: _Share = 0.9
    """Priority of a sequence: this share of the largest TD error, the rest of the mean."""
    priorities: Literal["all", "extrinsic"] = "all"
    """Which heads' TD errors set priorities: all, or those of the game's reward. Ours."""
    normalise_inputs: bool = True
    """Whether the torso's input is (observation - mean) / deviation of what was replayed;
    without it Ms. Pac-Man is not learned (docs/results/atari). Ours."""
    normalise_values: bool = False
    """Whether Q = mean value + return scale * (output of the network). Ours."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """The game."""

    sticky_actions: Annotated[
        float | None,
        _Range("0 or more, and below 1, or None", lambda x: x is None or 0 <= x < 1),
    ] = None
    """Probability that the previous action is played again instead of the new one; None:
    the game's own, which `sidequest games` lists (0.25 on Atari, the paper's)."""


@dataclass(frozen=True)
class NoveltyConfig:
    """Random network distillation, for XI."""

    channels: tuple[int, ...] = (32, 64, 64)
    """Channels of the convolutions of target and predictor, for images."""
    kernels: tuple[int, ...] = (8, 4, 3)
    """Width and height of their kernels."""
    strides: tuple[int, ...] = (4, 2, 1)
    """Their strides."""
    units: _Count = 128
    """Numbers that target and predictor put out."""
    downsampling: _Count = 2
    """Every n-th pixel in both directions."""
    episodic: bool = True
    """Whether intrinsic returns end with the episode; in RND they do not. Ours."""
    centred: bool = True
    """Whether intrinsic rewards are (novelty - mean) / deviation of recent updates; else
    novelty / root mean square. Ours."""
    weight: _Positive = 0.1
    """Weight of the intrinsic head's loss beside that of the game's reward. Ours."""
    epsilon: _Share = 0.0
    """Probability of a uniform action in XI's explore mode, for games in which sticky
    actions are not random enough. Ours."""


@dataclass(frozen=True)
class SwitchingConfig:
    """When to explore: settings that a variant's name leaves open."""

    rule: Literal["saturated", "printed"] = "saturated"
    """Rule of homeostasis; printed is the paper's Algorithm 1 to the letter. Ours."""
    promise_horizon: _Count = 5
    """k of the value promise. The paper gives none; this is its learner's n. Ours."""
    promise_order: Literal["standard", "printed"] = "standard"
    """Weights of the rewards in the value promise: as in a k-step return, or as the paper
    prints them, the newest reward with 1. Ours."""
    bandit: Literal["proportional", "ucb"] = "proportional"
    """How bandits choose arms; proportional is the paper's."""
    window: _Window = None
    """Episodes in a bandit's window; None: adaptive (160 for ucb). Ours."""
    explore_arms: _StepArms = (1, 10, 100)
    """Lengths of explore periods that `*` chooses from."""
    exploit_arms: _StepArms = (10, 100, 1_000, 10_000)
    """Lengths of exploit periods that `n*` chooses from."""
    rate_arms: _RateArms = (0.1, 0.01, 0.001, 0.0001)
    """Rates that `p*` chooses from."""


@dataclass(frozen=True)
class EvaluationConfig:
    """The greedy evaluator and what is recorded."""

    interval: _Count = 1_000_000
    """Frames between two evaluations, in compiled games; unless it is set, a tenth of the
    run at most. On emulators the evaluator never stops, as in the paper. Ours."""
    episodes: _Batch = 10
    """Episodes of one evaluation; on emulators, the number of emulators. Ours."""
    traces: _Count = 200
    """Episodes that are recorded step by step, spread over the run. Ours."""


@dataclass(frozen=True)
class Config:
    """All settings of a run besides variant, game, seed and budget."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    novelty: NoveltyConfig = field(default_factory=NoveltyConfig)
    switching: SwitchingConfig = field(default_factory=SwitchingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)


PAPER = Config()
"""The paper's Table 1, number for number; fields that it lacks are marked as ours."""

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
    acting=ActingConfig(environments=16, sync_interval=20),
    replay=ReplayConfig(
        capacity=100_000, block_length=20, prefix=10, ratio=4.0, warm_up=5_000
    ),
    learning=LearningConfig(
        # By a search on five games, judged on others (docs/results/small_games). Cutting
        # traces without tolerance loses goals that are far.
        n_step=3,
        watkins=True,
        trace_tolerance=0.2,
        batch_size=16,
        discount=0.99,
        short_discount=0.9,
        learning_rate=1e-3,
        target_interval=100,
        timeout_is_terminal=False,
        normalise_inputs=False,
    ),
    novelty=NoveltyConfig(
        channels=(16,), kernels=(3,), strides=(1,), units=64, downsampling=1, epsilon=0.1
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
    acting=ActingConfig(environments=8, sync_interval=20),
    replay=ReplayConfig(capacity=20_000, block_length=20, prefix=10, warm_up=1_000),
    learning=LearningConfig(batch_size=8, target_interval=100),
    novelty=NoveltyConfig(channels=(8, 16), kernels=(8, 4), strides=(4, 2), units=32),
    evaluation=EvaluationConfig(episodes=4, traces=20),
)

PRESETS = {"paper": PAPER, "small": SMALL, "small-frames": SMALL_FRAMES}


def flatten(config: Config) -> dict[str, Any]:
    """Returns `{"replay.prefix": 20, ...}`: every setting by its dotted name."""
    return _flatten(asdict(config))


def _flatten(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        f"{component}.{name}": value
        for component, entries in settings.items()
        for name, value in entries.items()
    }


WITHOUT_EFFECT = frozenset({"evaluation.interval"})
"""Settings that change nothing of what a run learns: whatever they are, runs resume, and
are compared with each other."""


def evaluate_often(config: Config, frames: int) -> Config:
    """Returns a config that evaluates at least about ten times in a run of this length, so
    that a short run has a curve too. Evaluations wait for the end of a chunk: a run of few
    chunks has fewer."""
    interval = max(1, min(config.evaluation.interval, frames // 10))
    return change(config, **{"evaluation.interval": interval})


def change(config: Config, **settings: Any) -> Config:
    """Returns a changed copy: `change(SMALL, **{"replay.ratio": 1.0})`."""
    known = flatten(config)
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(unknown_setting(name))
        component, entry = name.split(".")
        part = replace(getattr(config, component), **{entry: value})
        config = replace(config, **{component: part})
    return config


_RENAMED = {
    "acting.streams": "acting.environments",
    "acting.pull_interval": "acting.sync_interval",
}


def unknown_setting(name: str, components: Iterable[str] = ()) -> str:
    """Returns a message about an unknown setting, with the name of a setting, or of one of
    these components, that may have been meant."""
    if name in _RENAMED:
        return f"no setting {name!r}; it is now called {_RENAMED[name]}"
    names = list(flatten(PAPER))
    if same := [one for one in names if one.endswith(f".{name.lower()}")]:
        return f"no setting {name!r}; did you mean {' or '.join(same)}?"
    return unknown("setting", name, [*components, *names], "sidequest settings")


def recorded(settings: Mapping[str, Mapping[str, Any]], game: str) -> dict[str, Any]:
    """Returns `flatten` of the config in a run's `run.json`, whichever version wrote it."""
    return modernise(_flatten(settings), game) if settings else {}


def modernise(flat: Mapping[str, Any], game: str) -> dict[str, Any]:
    """Returns recorded settings, by dotted names, as today's version would have recorded
    them: by today's names, and with those that their version did not have."""
    flat = {_RENAMED.get(name, name): value for name, value in flat.items()}
    # Earlier versions had one setting for both, and before that none.
    for former in ("network.standardised", "learning.centred"):
        flat.pop(former, None)
    both = flat.pop("learning.standardised", False)
    flat.setdefault("learning.normalise_inputs", both)
    flat.setdefault("learning.normalise_values", both)
    flat.setdefault("switching.promise_order", "standard")
    # Only Atari, whose names have no colon, had sticky actions.
    flat.setdefault("environment.sticky_actions", 0.0 if ":" in game else None)
    flat.setdefault("learning.priorities", "all")
    flat.setdefault("learning.trace_tolerance", 0.0)
    flat.setdefault("novelty.episodic", True)
    flat.setdefault("novelty.centred", False)
    flat.setdefault("novelty.weight", 1.0)
    flat.setdefault("novelty.epsilon", 0.0)
    return flat


def from_dict(settings: Mapping[str, Mapping[str, Any]], game: str) -> Config:
    """Returns the config in the `run.json` of a run of this game."""
    flat = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in recorded(settings, game).items()
    }
    return change(Config(), **flat)


def check(config: Config) -> None:
    """Raises `ConfigError` with every fault: the field, its value, what is allowed."""
    types, ranges = [], []
    for part in fields(config):
        component = getattr(config, part.name)
        for name, hint in get_type_hints(type(component), include_extras=True).items():
            value, allowed = getattr(component, name), None
            if get_origin(hint) is Annotated:
                hint, allowed = get_args(hint)
            said = f"{part.name}.{name} is"
            if not _is_of(value, hint):
                types.append(f"{said} {value!r:.60}; it is {_describe(hint)}")
            elif allowed is not None and not allowed.holds(value):
                ranges.append(f"{said} {value!s:.60}; it is {allowed.words}")
    # What is of another type cannot be compared.
    faults = types + ranges + ([] if types else _faults_between_settings(config))
    if faults:
        raise ConfigError("\n".join(faults))


def _faults_between_settings(config: Config) -> list[str]:
    faults = []
    steps, n_step = 2 * config.replay.block_length, config.learning.n_step
    if n_step > steps:
        faults.append(f"learning.n_step is {n_step}; a sequence trains on {steps} steps")
    for name in ("network", "novelty"):
        torso = getattr(config, name)
        layers = torso.channels, torso.kernels, torso.strides
        if len(set(map(len, layers))) > 1:
            faults.append(f"{name}: channels, kernels and strides have different lengths")
        if min((1, *sum(layers, ()))) < 1:
            faults.append(f"{name}: channels, kernels and strides are 1 or more")
    return faults


def _is_of(value: Any, hint: Any) -> bool:
    """Returns whether a value is of its field's type; numbers are finite."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_of(x, get_args(hint)[0]) for x in value)
    if get_args(hint):  # X | None
        return any(_is_of(value, option) for option in get_args(hint))
    if hint is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if hint is int:
        return type(value) is int and abs(value) < 2**31
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    plain = {
        int: "a whole number below 2^31",
        float: "a finite number",
        bool: "true or false",
        bool | None: "true, false or none",
        int | None: "a whole number below 2^31, or none",
        float | None: "a finite number, or none",
        tuple[int, ...]: "whole numbers in brackets",
        tuple[float, ...]: "numbers in brackets",
    }
    return plain[hint]


class Setting(NamedTuple):
    """A setting as `sidequest settings` and the reference describe it."""

    name: str
    default: Any
    """Its value in the preset `paper`."""
    small: Any
    allowed: str
    meaning: str
    source: str
    """`paper`, or `ours` where the paper gives no number or none that was kept."""


def describe_settings() -> dict[str, list[Setting]]:
    """Returns all settings by component; the docstrings of fields are their meaning."""
    paper, small = flatten(PAPER), flatten(SMALL)
    described = {}
    for part in fields(Config):
        component = type(getattr(PAPER, part.name))
        described[part.name] = entries = []
        for name, text in _field_docstrings(component).items():
            hint = get_type_hints(component, include_extras=True)[name]
            ranged = get_origin(hint) is Annotated
            allowed = hint.__metadata__[0].words if ranged else _describe(hint)
            meaning = text.removesuffix(" Ours.")
            source = "paper" if meaning == text else "ours"
            full = f"{part.name}.{name}"
            setting = Setting(full, paper[full], small[full], allowed, meaning, source)
            entries.append(setting)
    return described


def _field_docstrings(component: type) -> dict[str, str]:
    """Returns the string below each field; Python keeps it in the source alone."""
    (node,) = ast.parse(inspect.getsource(component)).body
    assert isinstance(node, ast.ClassDef)
    return {
        ast.unparse(entry.target): " ".join(ast.literal_eval(below.value).split())
        for entry, below in itertools.pairwise(node.body)
        if isinstance(entry, ast.AnnAssign) and isinstance(below, ast.Expr)
    }
