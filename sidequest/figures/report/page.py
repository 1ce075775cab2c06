"""`report.html`: one page that holds a study, and works without a network.

The page is plain HTML with figures and data inside, to be read, searched and printed
without its script, which adds sorting, filtering and the strip viewer (assets/report.js).
What comes from records is escaped (markup.py); the page's own policy lets no other script
run and nothing be loaded.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from sidequest.figures.claims.catalogue import NOT_JUDGED, Claim, judge_all
from sidequest.figures.claims.verdicts import (
    NOT_ENOUGH,
    NOT_SUPPORTED,
    STATES,
    SUPPORTED,
    Verdict,
)
from sidequest.figures.gallery import GALLERY, Entry
from sidequest.figures.reading import Records, read_records
from sidequest.figures.report.episodes import read_episodes
from sidequest.figures.report.markup import Html, embed_json, join, paragraphs, table, tag
from sidequest.figures.report.tables import (
    exploration_table,
    facts,
    gaps,
    lead,
    score_table,
)
from sidequest.figures.style import SUFFIXES, save
from sidequest.records import now

REPORT = "report.html"
PICTURES = "figures"
MEDIA = {".png": "image/png", ".svg": "image/svg+xml"}
SIGNS = {SUPPORTED: "✓", NOT_SUPPORTED: "✗", NOT_ENOUGH: "?"}  # shape as a second cue
NO_EPISODES = tag("p", "No whole episode has been recorded yet.", class_="note")


def write_report(folder: Path, pictures: Path | None = None) -> Path:
    """Writes the report of the runs below a folder into it.

    Args:
        folder: A study's, or any with runs below it; also while they go.
        pictures: Where the gallery has just been drawn (`sidequest figures` does that).
            Without it the gallery is drawn now, into `folder/figures`.
    """
    records = read_records(folder)
    if pictures is None:
        pictures = folder / PICTURES
        draw_gallery(records, pictures)
    path = folder / REPORT
    beside = path.with_name(path.name + ".part")
    beside.write_text(make_page(records, pictures, drawn=now()), encoding="utf-8")
    return beside.replace(path)


def draw_gallery(records: Records, out: Path) -> None:
    """Draws what can be drawn; a picture that no longer can be is taken away."""
    for entry in GALLERY:
        figure = entry.draw(records)
        for suffix in SUFFIXES:
            path = out / f"{entry.name}{suffix}"
            if figure is None:
                path.unlink(missing_ok=True)
            else:
                save(figure, path)


def make_page(records: Records, pictures: Path, *, drawn: str) -> str:
    """The whole page as text."""
    judged = judge_all(records)
    episodes = read_episodes(records)
    script = "\n" + page_file("report.js")
    parts = {
        "policy": policy(script),
        "style": page_file("style.css"),
        "title": join([records.title]),
        "name": join([records.name]),
        "lead": join([lead(records)]),
        "facts": facts(records),
        "gaps": gaps(records),
        "claims": show_claims(judged),
        "unjudged": tag("ul", *(tag("li", text) for text in NOT_JUDGED)),
        "figures": join(show_figure(entry, records, pictures) for entry in GALLERY),
        "scores": score_table(records),
        "exploration": exploration_table(records),
        "viewer": page_file("viewer.html") if episodes else NO_EPISODES,
        "drawn": join([drawn]),
        "folder": join([records.folder.resolve().name]),
        "episodes": embed_json(episodes),
        "script": script,
    }
    return Template(page_file("report.html")).substitute(parts)


def policy(script: str) -> str:
    """What the page may do: run this script, show what it holds, and load nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = ("default-src 'none'", "img-src data:", "style-src 'unsafe-inline'")
    return "; ".join([*rules, f"script-src 'sha256-{digest}'"])


def page_file(name: str) -> str:
    return (files("sidequest.figures.report") / "assets" / name).read_text(encoding="utf-8")


def show_claims(judged: Sequence[tuple[Claim, Verdict]]) -> Html:
    """How many claims stand how, then each with its rule and its numbers."""
    tally = Counter(verdict.state for _, verdict in judged)
    badges = [tag("li", badge(state), f" {tally[state]}") for state in STATES]
    cards = [show_claim(claim, verdict) for claim, verdict in judged]
    return join([tag("ul", *badges, class_="tally"), tag("div", *cards, class_="claims")])


def badge(state: str) -> Html:
    words = f"{SIGNS[state]} {state}"
    return tag("span", words, class_=f"badge {state.replace(' ', '-')}")


def show_claim(claim: Claim, verdict: Verdict) -> Html:
    numbers = Html()
    if verdict.numbers:
        caption = f"Numbers behind the claim: {claim.sentence}"
        numbers = table(("what", "came out"), verdict.numbers, caption=caption)
    rule = tag("p", tag("strong", "Rule. "), claim.rule)
    needs = tag("p", tag("strong", "Needs. "), claim.needs)
    return tag(
        "article",
        tag("h3", claim.sentence),
        tag(
            "p",
            badge(verdict.state),
            tag("span", claim.paper, class_="meta"),
            class_="state",
        ),
        tag("p", verdict.sentence),
        tag("details", tag("summary", "Rule and numbers"), rule, needs, numbers),
        class_="claim",
        id=f"claim-{claim.name}",
        data_state=verdict.state,
    )


def show_figure(entry: Entry, records: Records, pictures: Path) -> Html:
    """The picture, with what to look for and what it shows; or what it would need."""
    heading = tag("h3", entry.title, " ", tag("span", f"({entry.paper})", class_="meta"))
    address = embed_picture(pictures / entry.name)
    shows = entry.shows(records)
    if address is None:
        body = tag("div", paragraphs(shows), class_="missing-figure")
    else:
        picture = tag(
            "img",
            src=address,
            alt=f"{entry.title}, drawn from these runs. It is described below.",
            aria_describedby=f"caption-{entry.name}",
        )
        look_for = tag("p", tag("strong", "Look for. "), entry.look_for)
        these = tag("p", tag("strong", "These runs. "), shows)
        caption = tag("figcaption", look_for, these, id=f"caption-{entry.name}")
        # On a phone the picture is wider than the page and scrolls in its box.
        box = tag("div", picture, class_="picture", tabindex="0")
        body = tag("figure", box, caption)
    return tag("div", heading, body, id=f"figure-{entry.name}")


def embed_picture(stem: Path) -> str | None:
    """The smaller of PNG and SVG as a data address; None if neither was drawn."""
    drawn = [
        path for suffix in SUFFIXES if (path := stem.with_name(stem.name + suffix)).exists()
    ]
    if not drawn:
        return None
    smallest = min(drawn, key=lambda path: path.stat().st_size)
    content = base64.b64encode(smallest.read_bytes()).decode()
    return f"data:{MEDIA[smallest.suffix]};base64,{content}"
