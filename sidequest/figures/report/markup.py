"""HTML that is safe by construction: whatever is not markup already is escaped.

tag("p", "a < b ", tag("code", "x"), class_="note")
<p class="note">a &lt; b <code>x</code></p>
"""

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

VOID = ("img", "input")


class Html(str):
    """A text that is markup already."""


def tag(name: str, *content: str, **attributes: Any) -> Html:
    """An element. `class_` and `for_` lose their underscore, `data_x` becomes `data-x`;
    an attribute that is None or False is left out, one that is True has no value."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    if name in VOID:
        return Html(opening)
    return Html(f"{opening}{join(content)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def paragraphs(text: str, **attributes: Any) -> Html:
    """One element `p` for each paragraph of a plain text."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    return join(tag("p", part.strip(), **attributes) for part in parts)


def embed_json(content: Any) -> Html:
    """JSON for a script element: no character in it can end the element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def breakable(name: str) -> Html:
    """A name that a line may be broken in after each comma, and nowhere in a word."""
    return Html(",<wbr>".join(escape(piece) for piece in name.split(",")))


class Number(NamedTuple):
    """A cell that is shown as `text` and sorted by `value`; None sorts last."""

    value: float | None
    text: str


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Number]],
    *,
    caption: str,
    id_: str | None = None,
) -> Html:
    """A table in a box that scrolls by itself; with an id its columns can be sorted.

    A column is one of numbers if its first cell is; the first cell of a row is its
    heading.
    """
    rows = [tuple(row) for row in rows]
    numeric = [
        rows and isinstance(cell, Number) for cell in (rows[0] if rows else headings)
    ]
    head = join(
        tag("th", heading, scope="col", class_="number" if number else None)
        for heading, number in zip(headings, numeric, strict=True)
    )
    body = join(tag("tr", *map(_cell, row, range(len(row)))) for row in rows)
    parts = tag("thead", tag("tr", head)) + tag("tbody", body)
    element = tag(
        "table",
        Html(parts),
        id=id_,
        class_="sortable" if id_ else None,
        aria_label=caption,
    )
    # The box takes the keyboard's focus, so that arrow keys scroll it.
    return tag(
        "div", element, class_="scroll", tabindex="0", role="region", aria_label=caption
    )


def _cell(cell: str | Number, place: int) -> Html:
    if isinstance(cell, Number):
        value = "" if cell.value is None else repr(float(cell.value))
        return tag("td", cell.text, class_="number", data_value=value)
    return tag("th", breakable(cell), scope="row") if place == 0 else tag("td", cell)
