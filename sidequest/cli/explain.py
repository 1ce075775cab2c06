"""`sidequest explain` and `settings`: what variants do, and what the settings mean."""

from __future__ import annotations

import json as jsons
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from sidequest.cli.options import Flag, check_range, option
from sidequest.config import Config, Setting, describe_settings, unknown_setting
from sidequest.errors import CannotWrite, InvalidRequest
from sidequest.switching.descriptions import (
    HEADS,
    PAPER_VARIANTS,
    SIGNALS,
    adapted,
    describe,
    listed,
    summarise,
)
from sidequest.switching.variants import EXAMPLE, MODES, Variant, parse
from sidequest.types import Trace
from sidequest.wording import plural

if TYPE_CHECKING:
    from rich.text import Text

_NARROWEST, _WIDEST = 20, 92  # letters of a line of prose, whatever the terminal has
_WARM_UP = 10  # episodes before the example: a share of an episode needs their lengths
_MARKDOWN = """# Settings

Made by `sidequest settings --markdown`. `sidequest train --set NAME=VALUE` changes one. The
defaults are those of the preset `paper`; `small` is for games of small observations.
Source: *paper* where the paper gives the number, *ours* where it does not.
"""
_LETTERS = {False: ("·", "white on #2c5f94"), True: ("X", "bold white on #b0106f")}
"""Letter and style of a step that exploits, and of one that explores."""


def explain(
    variant: Annotated[Positional[tuple[str, ...]], option("[VARIANT …]")] = (),
    /,
    all: Flag = False,
    json: Flag = False,
    plot: Annotated[Path | None, option("FILE")] = None,
    no_strip: Flag = False,
    steps: Annotated[int, option("NUMBER")] = 400,
    episode: Annotated[int, option("NUMBER")] = 200,
    seed: Annotated[int, option("NUMBER")] = 0,
) -> None:
    """Explains in plain English what a variant does and needs, and shows an example.

    The real controllers play the example in a made-up game.

    With several variants it says what differs, and how each plays the example.

    For example:
      sidequest explain "XU-intra(10,informed,p*,X)"
      sidequest explain "XU-intra(10,blind,100,G)" "XU-intra(10,informed,0.01,G)"

    Args:
        variant: One or more names of variants in quotes, such as
            "XU-intra(10,informed,p*,X)".
        all: List the variants of the paper instead, one line each.
        json: Print JSON for programs, and nothing else.
        plot: Draw the example of one variant in detail to this file, .png or .svg.
        no_strip: Leave out the example in the terminal, which has one letter per step.
        steps: Length of the example in steps, 1 to 100000.
        episode: Length of each of its episodes in steps, 1 to 10000.
        seed: The random seed of the example, 0 or more.
    """
    if all == bool(variant):
        raise InvalidRequest(f"explain takes variants, such as '{EXAMPLE}', or --all")
    check_range("steps", steps, 1, 100_000)
    check_range("episode", episode, 1, 10_000)
    check_range("seed", seed, 0)
    if plot is not None and (len(variant) != 1 or plot.suffix not in (".png", ".svg")):
        raise InvalidRequest(
            f"--plot is {plot}; it takes one variant and a .png or .svg file"
        )
    if all:
        variant = tuple(name for names in PAPER_VARIANTS.values() for name in names)
    variants = list(map(parse, variant))
    traces = []
    if plot is not None or not (all or json or no_strip):
        traces = [_play_example(one, steps, episode, seed) for one in variants]
    if json:
        structures = [one.as_dict() for one in variants]
        shown = structures[0] if len(structures) == 1 else structures
        print(jsons.dumps(shown, ensure_ascii=False))
    elif all:
        print(_catalogue())
    else:
        width = max(len(str(variant)) for variant in variants)
        one = len(variants) == 1
        print(*(_prose(it) if one else _line(it, width) for it in variants), sep="\n")
        if traces and not no_strip:
            _show_strips(variants, traces)
        if len(variants) > 1:
            _compare(variants, traces)
    if plot is not None:
        _draw(variants[0], traces[0], plot)


def _catalogue() -> str:
    """Returns the paper's variants, one line each, under their places in the paper."""
    width = max(len(name) for names in PAPER_VARIANTS.values() for name in names) + 2
    lines = []
    for place, names in PAPER_VARIANTS.items():
        lines += [place, *(f"  {n:<{width}}{summarise(parse(n))}" for n in names), ""]
    lines += ["From one number to another: a bandit chooses. Exploring means, with"]
    lines += [f"  {name:<4}{mode.words}" for name, mode in MODES.items()]
    return "\n".join(lines)


def _prose(variant: Variant) -> str:
    """Returns sentences, then the heads, signals and arms that the variant needs."""
    width = _prose_width()
    lines = [str(variant), ""]
    for sentence in describe(variant):
        lines.append(textwrap.fill(f"- {sentence}", width, subsequent_indent="  "))
    needs = {
        "heads": {name: HEADS[name] for name in variant.heads},
        "signals": {name: SIGNALS[name] for name in variant.signals},
        "arms": {
            name: f"{listed(values)}: {adapted(variant, name)}"
            for name, values in variant.bandits().items()
        },
    }
    lines += ["", "It needs"]
    for kind, entries in needs.items():
        for name, meaning in (entries or {"none": ""}).items():
            lines.append(f"  {kind:<9}{name:<17}{meaning}".rstrip())
            kind = ""
    return "\n".join(lines)


def _prose_width() -> int:
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))


def _line(variant: Variant, width: int) -> str:
    return f"{variant!s:<{width}} {summarise(variant)}"


def _compare(variants: list[Variant], traces: list[Trace]) -> None:
    """Prints a table of the choices in which variants differ, and names the others."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from sidequest.switching.simulation import characteristics

    columns: list[dict[str, Any]] = [variant.as_dict() for variant in variants]
    for column in columns:
        column["bandits"] = [
            f"{one['name']}: {listed(one['arms'])}" for one in column["bandits"]
        ]
    for column, trace in zip(columns, traces, strict=False):
        p, median = characteristics(trace)
        column |= {"p_X here": f"{p:.3g}", "med_X here": f"{median:g}".replace("nan", "")}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", *map(str, variants)):
        table.add_column(heading, overflow="fold")
    same = []
    for choice in list(columns[0])[1:]:
        values = [column[choice] or "none" for column in columns]
        texts = [v if isinstance(v, str) else ", ".join(v) for v in values]
        if len({*texts}) > 1:
            table.add_row(choice, *texts)
        else:
            same.append(f"{choice} {texts[0]}")
    Console(highlight=False).print("", table, f"The same: {'; '.join(same) or 'nothing'}")


def example_arms(variant: Variant) -> dict[str, float]:
    """Returns what the example plays with where a bandit would choose: the second arm.

    It stays the same through the example, and suits episodes of some hundred steps. The
    mode of whole episodes is left to its bandit: the example has several episodes.
    """
    return {name: arms[1] for name, arms in variant.bandits().items() if name != "start"}


def _play_example(variant: Variant, steps: int, episode: int, seed: int) -> Trace:
    """Returns the last steps of a longer stream; they begin with an episode's start."""
    from sidequest.switching.simulation import simulate

    trace = simulate(
        variant,
        steps=_WARM_UP * episode + steps,
        episode=episode,
        seed=seed,
        arms=example_arms(variant),
    )
    return Trace(*(column[-steps:] for column in trace))


def _show_strips(variants: list[Variant], traces: list[Trace]) -> None:
    """Prints the strip of each variant's example, and the numbers that summarise it."""
    from rich.console import Console
    from rich.text import Text

    from sidequest.switching.simulation import characteristics

    console = Console(highlight=False)
    (exploit, exploit_style), (explore, explore_style) = _LETTERS.values()
    legend = Text.assemble(
        (f" {exploit} ", exploit_style), " exploit   ", (f" {explore} ", explore_style)
    )
    console.print("", legend + " explore", sep="\n")
    for variant, trace in zip(variants, traces, strict=True):
        fixed = [f"{name} = {value:g}" for name, value in example_arms(variant).items()]
        playing = f", played with {' and '.join(fixed)}" if fixed else ""
        what = "An example" if len(variants) == 1 else str(variant)
        console.print("", f"{what}{playing}:", "", sep="\n")
        for line in strip_lines(trace, console.width):
            console.print(line, no_wrap=True, crop=False, overflow="ignore")
        if len(variants) > 1:
            continue  # the table has its numbers
        p, median = characteristics(trace)
        typical = "none" if median != median else plural(median, "step")
        console.print(
            "",
            f"p_X    {p:<13.3g}the share of explore steps",
            f"med_X  {typical:<13}the typical length of an explore period",
            sep="\n",
        )


def strip_lines(trace: Trace, width: int) -> Iterator[Text]:
    """Yields lines with one letter a step; an episode starts a new line."""
    from rich.text import Text

    margin = "{:<12}{:>6}  "
    letters = max(10, width - len(margin.format("", "")))
    starts = trace.is_first.nonzero()[0].tolist()
    ends = [*starts[1:], len(trace.modes)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        for at in range(start, end, letters):
            title = f"episode {number}" if at == start else ""
            line = Text(margin.format(title, at - start))
            for explores in trace.modes[at : min(at + letters, end)]:
                line.append(*_LETTERS[bool(explores)])
            yield line


def _draw(variant: Variant, trace: Trace, path: Path) -> None:
    from sidequest.figures.illustrations import draw_example
    from sidequest.figures.style import save

    try:
        save(draw_example(trace, str(variant)), path)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}") from error
    # Standard output may be read by a program that expects nothing else there.
    print(f"drawn: {path}", file=sys.stderr)


def settings(
    name: Annotated[Positional[str | None], option("[NAME]")] = None,
    /,
    markdown: Flag = False,
) -> None:
    """Lists settings: value in the presets paper and small, range, meaning and source.

    The source is the paper, or ours where the paper gives no number.

    To change a setting: `sidequest train --set NAME=VALUE`.

    For example:
      sidequest settings
      sidequest settings replay

    Args:
        name: Only this setting, such as replay.ratio, or this component, such as replay.
        markdown: Print Markdown tables.
    """
    described = describe_settings()
    names = [one.name for entries in described.values() for one in entries]
    if name is not None and name not in (*described, *names):
        raise InvalidRequest(unknown_setting(name, described))
    if markdown:
        print(_MARKDOWN)
    for component, entries in described.items():
        chosen = [one for one in entries if name in (None, component, one.name)]
        if chosen:
            title = Config.__dataclass_fields__[component].default_factory.__doc__  # type: ignore
            print(_as_markdown(title, chosen) if markdown else _as_text(title, chosen))


def _as_text(title: str, entries: list[Setting]) -> str:
    """Returns two or more lines on each setting."""
    width = _prose_width()
    lines = [title]
    for one in entries:
        values = f"{_show(one.default)}, small: {_show(one.small)}"
        lines.append(f"  {one.name} = {values}  ({one.allowed}; {one.source})")
        lines.append(textwrap.indent(textwrap.fill(one.meaning, width - 6), " " * 6))
    return "\n".join([*lines, ""])


def _as_markdown(title: str, entries: list[Setting]) -> str:
    """Returns a table."""
    lines = [f"## {title.rstrip('.')}", ""]
    lines += ["| setting | paper | small | allowed | meaning | source |", "|---" * 6 + "|"]
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
