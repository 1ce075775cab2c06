"""How options are written down in commands and shown by --help, and which go together."""

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any

from tyro.conf import DisallowNone, FlagCreatePairsOff, arg

from sidequest.errors import InvalidRequest

NO_BREAK = "\N{NO-BREAK SPACE}"
MARKERS = (DisallowNone, FlagCreatePairsOff)
"""For all commands: no option takes the word None, no flag has a twin --no-…"""


def option(metavar: str | None = None, default: Any = None, name: str | None = None) -> Any:
    """How help texts show an option.

    Args:
        metavar: Its placeholder; by default what its type says.
        default: What None stands for, if that can be said in a word.
        name: If it cannot be the argument's.
    """

    def tell_default(value: str) -> str:
        told = default if value == "None" else value
        return "" if told in (None, "False", "") else f"(default:{NO_BREAK}{told})"

    return arg(name=name, metavar=metavar, help_behavior_hint=tell_default)


Flag = Annotated[bool, option()]


def flowing(docstring: str) -> str:
    """The text on each argument in one line: tyro keeps the line breaks of the source."""
    return re.sub(r"\n {8,}(?=\S)", " ", inspect.cleandoc(docstring))


def refuse_unused(given: Mapping[str, Any], reason: str) -> None:
    """Options that would be ignored are refused, so that nobody counts on them.

    Args:
        given: Values by the names of arguments.
        reason: Why they do not apply.
    """
    names = options_given(given)
    if names:
        verb = "does" if len(names) == 1 else "do"
        raise InvalidRequest(f"{' and '.join(names)} {verb} not apply: {reason}")


def options_given(values: Mapping[str, Any]) -> list[str]:
    """As they are typed: those that are not None, False or (); 0 was given."""
    return [
        f"--{name.replace('_', '-')}"
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    ]
