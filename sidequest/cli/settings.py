"""Reading what people type for numbers and settings."""

import ast
import difflib
import os
from pathlib import Path

from sidequest.checks import check
from sidequest.config import PRESETS, Config, change, flatten
from sidequest.errors import ConfigError, InvalidRequest

COUNTS = {"k": 1e3, "m": 1e6, "b": 1e9}
SIZES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}
"""What people type who do not think in Python, whose own words serve as well."""


def read_count(text: str, name: str) -> int:
    """`200000`, `2e5`, `200k`, `0.2M` -> 200000."""
    count = read_scaled(text.replace(",", "").replace("_", ""), COUNTS)
    if not 1 <= count < 1e15:
        raise InvalidRequest(
            f"{name} is {text!r}; write a number such as 200000, 2e5 or 200k"
        )
    return int(count)


def read_size(text: str, name: str) -> int:
    """`40GB`, `500 MB` -> bytes."""
    size = read_scaled(text.lower().strip().replace(" ", "").removesuffix("b"), SIZES)
    if not 1e6 <= size < 1e15:
        raise InvalidRequest(
            f"{name} is {text!r}; write a size of 1MB or more, such as 40GB"
        )
    return int(size)


def read_scaled(text: str, factors: dict[str, float]) -> float:
    """A number with a letter for its size, or 0 if it is none."""
    cleaned = text.strip().lower()
    try:
        return float(cleaned.rstrip("".join(factors))) * factors.get(cleaned[-1:], 1.0)
    except ValueError:
        return 0.0


def read_config(preset: str, settings: tuple[str, ...]) -> Config:
    """A preset with `name=value` settings on top; all faults are reported at once."""
    config = PRESETS[preset]
    known = flatten(config)
    changes, faults = {}, []
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = (
                f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            )
            faults.append(f"no setting {name!r}{hint}")
            continue
        try:
            changes[name] = read_value(text, known[name])
        except (ValueError, SyntaxError):
            kind = type(known[name]).__name__
            faults.append(f"{name} is {text!r}; expected {kind} such as {known[name]}")
    config = change(config, **changes)
    try:
        check(config)
    except ConfigError as fault:
        faults.append(str(fault))
    if faults:
        raise InvalidRequest("\n".join(faults))
    return config


def read_value(text: str, like):
    """Text as a value of the same type as `like`."""
    if isinstance(like, str):
        return text
    value = WORDS[text] if text in WORDS else ast.literal_eval(text)
    if isinstance(like, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if like is not None and type(value) is not type(like):
        raise ValueError(text)
    return value


def use_all_cores() -> None:
    """Makes each core a device, so that members of a population share them."""
    import jax

    from sidequest.records import available_cores

    try:
        jax.config.update("jax_num_cpu_devices", available_cores())
    except RuntimeError:  # JAX is in use already, as in a notebook, and stays as it is
        pass


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second start is quick."""
    import jax

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "sidequest" / "jax"))
