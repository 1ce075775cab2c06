"""`sidequest settings`: every setting of the agent, with default, range and meaning."""

import shutil
import textwrap
from typing import Annotated, Any

from tyro.conf import Positional

from sidequest.cli.options import Flag, option
from sidequest.config import Config, Setting, describe_settings
from sidequest.errors import InvalidRequest, unknown

_MARKDOWN = """# Settings

Made by `sidequest settings --markdown`. `sidequest train --set NAME=VALUE` changes one. The
defaults are those of the preset `paper`; `small` is for games of small observations.
Source: *paper* where the paper gives the number, *ours* where it does not.
"""


def settings(
    name: Annotated[Positional[str | None], option("[NAME]")] = None,
    /,
    markdown: Flag = False,
) -> None:
    """Lists settings: value in the presets paper and small, range, meaning and source.

    The source is the paper, or ours where the paper gives no number.

    `sidequest train --set NAME=VALUE` changes a setting.

    For example:
      sidequest settings
      sidequest settings replay

    Args:
        name: Only this setting, such as replay.ratio, or component, such as replay.
        markdown: Print Markdown tables.
    """
    described = describe_settings()
    names = [one.name for entries in described.values() for one in entries]
    if name is not None and name not in (*described, *names):
        raise InvalidRequest(unknown("setting", name, [*described, *names]))
    if markdown:
        print(_MARKDOWN)
    for component, entries in described.items():
        chosen = [one for one in entries if name in (None, component, one.name)]
        if chosen:
            title = Config.__dataclass_fields__[component].default_factory.__doc__  # type: ignore
            print(_as_markdown(title, chosen) if markdown else _as_text(title, chosen))


def _as_text(title: str, entries: list[Setting]) -> str:
    """Returns two or more lines on each setting."""
    width = min(92, shutil.get_terminal_size().columns)
    lines = [title]
    for one in entries:
        values = f"{_show(one.default)}, small: {_show(one.small)}"
        lines.append(f"  {one.name} = {values}  ({one.allowed}; {one.source})")
        lines.append(textwrap.indent(textwrap.fill(one.meaning, width - 6), " " * 6))
    return "\n".join([*lines, ""])


def _as_markdown(title: str, entries: list[Setting]) -> str:
    """Returns a table."""
    lines = [
        f"## {title.rstrip('.')}",
        "",
        "| setting | paper | small | allowed | meaning | ",
    ]
    lines[-1] += "source |"
    lines.append("|---" * 6 + "|")
    for one in entries:
        cells = (f"`{one.name}`", _show(one.default), _show(one.small), one.allowed)
        lines.append(f"| {' | '.join((*cells, one.meaning, one.source))} |")
    return "\n".join([*lines, ""])


def _show(value: Any) -> str:
    """Returns a value as people type it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_show, value))}{',' * (len(value) == 1)})"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int) and value >= 10_000:
        return f"{value:_}"
    return f"{value:g}" if isinstance(value, float) else str(value)
