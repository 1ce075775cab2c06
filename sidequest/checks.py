"""What settings can be: types first, then ranges; every fault is told at once."""

import math
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sidequest.config import Config, SwitchingConfig, flatten
from sidequest.errors import ConfigError
from sidequest.switching.variants import RATE_ALLOWED, STEPS_ALLOWED

AT_LEAST_ONE = (
    "network.pre_units network.core_units network.head_units "
    "network.scan_unroll "
    "acting.streams acting.pull_interval replay.capacity replay.block_length "
    "learning.n_step learning.batch_size learning.target_interval novelty.units "
    "novelty.downsampling switching.promise_horizon evaluation.interval "
    "evaluation.episodes evaluation.traces"
).split()
LEAST_RATIO = 0.001
NOT_NEGATIVE = "network.post_units replay.prefix replay.warm_up".split()
ABOVE_ZERO = "learning.clip_norm learning.learning_rate learning.adam_epsilon".split()
SHARES = (
    "replay.priority_exponent replay.importance_exponent learning.discount "
    "learning.short_discount learning.priority_mix"
).split()


def check(config: Config) -> None:
    """Raises `ConfigError` with every fault: the field, its value, what is allowed."""
    flat = flatten(config)
    faults = faults_of_types(config)
    if faults:  # what is of another type cannot be compared
        raise ConfigError("\n".join(faults))
    faults = [
        f"{name} is {flat[name]}; it is 1 or more"
        for name in AT_LEAST_ONE
        if flat[name] < 1
    ]
    faults += [
        f"{name} is {flat[name]}; it is between 0 and 1"
        for name in SHARES
        if not 0 <= flat[name] <= 1
    ]
    faults += [
        f"{name} is {flat[name]}; it is 0 or more"
        for name in NOT_NEGATIVE
        if flat[name] < 0
    ]
    faults += [
        f"{name} is {flat[name]}; it is above 0" for name in ABOVE_ZERO if flat[name] <= 0
    ]
    faults += [
        f"{name} is {flat[name]}; it is 0 or more, and below 1"
        for name in ("learning.adam_b1", "learning.adam_b2")
        if not 0 <= flat[name] < 1
    ]
    if flat["replay.ratio"] < LEAST_RATIO:
        given = flat["replay.ratio"]
        faults.append(f"replay.ratio is {given}; it is {LEAST_RATIO} or more")
    longest = 2 * flat["replay.block_length"]
    if flat["learning.n_step"] > longest:
        given = flat["learning.n_step"]
        faults.append(f"learning.n_step is {given}; a sequence trains on {longest} steps")
    faults += faults_of_arms(config.switching)
    for name in ("network", "novelty"):
        torso = getattr(config, name)
        lengths = {len(torso.channels), len(torso.kernels), len(torso.strides)}
        if len(lengths) > 1:
            faults.append(f"{name}: channels, kernels and strides have different lengths")
        if min((1, *torso.channels, *torso.kernels, *torso.strides)) < 1:
            faults.append(f"{name}: channels, kernels and strides are 1 or more")
    if faults:
        raise ConfigError("\n".join(faults))


def faults_of_types(config: Config) -> list[str]:
    """Settings that are of another type than their field, or one of other words."""
    faults = []
    for part in fields(config):
        component = getattr(config, part.name)
        for name, hint in get_type_hints(type(component)).items():
            value = getattr(component, name)
            if not is_of(value, hint):
                plain = {int: "a whole number below 2^31", float: "a finite number"}
                said = plain.get(hint, str(hint))
                if get_origin(hint) is Literal:
                    said = "one of " + ", ".join(map(str, get_args(hint)))
                faults.append(f"{part.name}.{name} is {value!r}; it is {said}")
    return faults


def is_of(value: Any, hint: Any) -> bool:
    """Whether a value is what its field's annotation says; numbers are finite."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(is_of(x, get_args(hint)[0]) for x in value)
    if get_args(hint):  # X | None
        return any(is_of(value, option) for option in get_args(hint))
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    if hint is int:
        return type(value) is int and abs(value) < 2**31
    return isinstance(value, hint)


def faults_of_arms(switching: SwitchingConfig) -> list[str]:
    """What a bandit can choose from, and how far it looks back."""
    faults = []
    for name, (low, high) in {
        "explore_arms": STEPS_ALLOWED,
        "exploit_arms": STEPS_ALLOWED,
        "rate_arms": RATE_ALLOWED,
    }.items():
        arms = getattr(switching, name)
        if not arms or not all(low <= arm <= high for arm in arms):
            faults.append(
                f"switching.{name} is {arms}; it is numbers from {low:g} to {high:g}, at "
                f"least one"
            )
    if switching.window is not None and switching.window < 1:
        faults.append(f"switching.window is {switching.window}; it is 1 or more, or None")
    return faults
