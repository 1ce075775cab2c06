"""Options of the commands: how help shows them, and how what people type is read."""

import ast
import inspect
import os
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import DisallowNone, FlagCreatePairsOff, arg

from sidequest.errors import ConfigError, InvalidRequest

NO_BREAK = "\N{NO-BREAK SPACE}"
MARKERS = (DisallowNone, FlagCreatePairsOff)
"""For all commands: no option takes the word None, and no flag has a twin --no-…"""
_COUNTS = {"k": 10**3, "m": 10**6, "b": 10**9}
_SIZES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_LONGEST_VALUE = 1_000
"""Letters of a setting's value: more could be nested too deeply for Python to read."""
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}
"""Values that people type who do not think in Python; Python's own are read as well."""


def option(metavar: str | None = None, default: Any = None, name: str | None = None) -> Any:
    """Returns an annotation that says how help texts show an option.

    Args:
        metavar: Its placeholder; by default what its type says.
        default: What None stands for, if that can be said in a word.
        name: The name to type, if it differs from the argument's.
    """

    def show_default(value: str) -> str:
        shown = default if value == "None" else value
        return "" if shown in (None, "False", "") else f"(default:{NO_BREAK}{shown})"

    return arg(name=name, metavar=metavar, help_behavior_hint=show_default)


Flag = Annotated[bool, option()]


def join_lines(docstring: str) -> str:
    """Puts the text on each argument in one line: tyro keeps the source's line breaks."""
    return re.sub(r"\n {8,}(?=\S)", " ", inspect.cleandoc(docstring))


def refuse(reason: str, *words: str, **options: Any) -> None:
    """Refuses words and options that would be ignored, so that nobody relies on them; those
    that are None, False or () were not given."""
    given = [
        f"--{name.strip('_').replace('_', '-')}"
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    ]
    given = [*words, *given]
    if given:
        verb = "does" if len(given) == 1 else "do"
        raise InvalidRequest(f"{' and '.join(given)} {verb} not apply: {reason}")


def refuse_empty(**options: tuple | None) -> None:
    """Refuses options without a value, as of a shell variable that is not set: they would
    count as not given. Those that are None were not given."""
    for name, value in options.items():
        if value == ():
            raise InvalidRequest(f"--{name} has no value; give one or more")


def check_run(folder: Path) -> dict[str, Any]:
    """Returns what run.json says; refuses a folder without a run, and warns of one whose
    files cannot be checked."""
    from sidequest.records import has_digests, read_run

    run = read_run(folder)
    if not has_digests(run):
        said = "was recorded by a version that took no digests: its files are unchecked"
        print(f"{folder} {said}", file=sys.stderr)
    return run


def check_range(name: str, value: int | None, low: int, high: int = 2**31 - 1) -> None:
    """Refuses a number that is not allowed; None was not given."""
    if value is not None and not low <= value <= high:
        raise InvalidRequest(f"--{name} is {value}; it is {low} to {high}")


def read_count(text: str, name: str) -> int:
    """`200000`, `2e5`, `200k`, `0.2M` -> 200000."""
    count = _read_scaled(text.replace(",", "").replace("_", ""), _COUNTS)
    if not 1 <= count < 1e15 or count != int(count):
        raise InvalidRequest(
            f"{name} is {text!r}; write a number such as 200000, 2e5 or 200k"
        )
    return int(count)


def read_size(text: str, name: str) -> int:
    """`40GB`, `500 MB` -> bytes."""
    size = _read_scaled(text.lower().strip().replace(" ", "").removesuffix("b"), _SIZES)
    if not 1e6 <= size < 1e15:
        raise InvalidRequest(
            f"{name} is {text!r}; write a size of 1MB or more, such as 40GB"
        )
    return int(size)


def _read_scaled(text: str, factors: dict[str, int]) -> Decimal:
    """Returns a number with a letter for its size, or 0 if it is none."""
    number = r"(?P<number>(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?)"
    found = re.fullmatch(f"{number}(?P<letter>[{''.join(factors)}]?)", text.strip().lower())
    if found is None or not found["number"].isascii():
        return Decimal(0)
    return Decimal(found["number"]) * factors.get(found["letter"], 1)


def read_config(preset: str, settings: tuple[str, ...]) -> Any:
    """Returns a preset with `name=value` settings on top; reports all faults at once."""
    from sidequest.config import PRESETS, change, check, flatten, unknown_setting

    config = PRESETS[preset]
    known = flatten(config)
    changes, faults = {}, []
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            faults.append(unknown_setting(name))
            continue
        changes[name] = _read_value(text, known[name])
    config = change(config, **changes)
    try:
        check(config)
    except ConfigError as fault:
        faults.append(str(fault))
    if faults:
        raise InvalidRequest("\n".join(faults))
    return config


def _read_value(text: str, example: Any) -> Any:
    """Reads text as Python, unless the example is text; `config.check` checks the type."""
    if isinstance(example, str) or len(text) > _LONGEST_VALUE:
        return text[:_LONGEST_VALUE]
    try:
        value = _WORDS[text] if text in _WORDS else ast.literal_eval(text)
        value = tuple(value) if isinstance(value, list) else value
        return float(value) if isinstance(example, float) and type(value) is int else value
    except (ValueError, SyntaxError, MemoryError, RecursionError, OverflowError):
        return text


def use_all_cores() -> None:
    """Makes each core a device, so that the runs of a population share them."""
    import jax

    from sidequest.records import available_cores

    try:
        jax.config.update("jax_num_cpu_devices", available_cores())
    except RuntimeError:  # JAX is in use already, as in a notebook, and stays as it is
        pass


def leave_gpus_to_others() -> None:
    """Keeps JAX in this process off the GPUs, whose memory it would take from workers."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second start is quick."""
    import jax

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "sidequest" / "jax"))
