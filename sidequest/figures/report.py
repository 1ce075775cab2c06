"""`report.html`: one page that holds a study, and works without a network.

The page is plain HTML with figures and data inside, to be read, searched and printed
without its script, which adds sorting, filtering, explanations of names on a tap and the
strip viewer. The template (assets/report.html) escapes what comes from records; the page's
own policy lets no other script run and nothing be loaded.
"""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sidequest.environments.scores import human_normalised
from sidequest.figures.claims import STATES, judge_all
from sidequest.figures.data import (
    Records,
    as_text,
    distinct,
    groups,
    most_learned,
    of_runs,
    read_traces,
    share_done,
)
from sidequest.figures.gallery import Drawn
from sidequest.figures.pairs import known, modes_in
from sidequest.figures.statistics import FEWEST_SEEDS, seeds_needed
from sidequest.figures.style import equal_first, listed, listed_games, look, some
from sidequest.records import now, read_failures, write_synced
from sidequest.switching.descriptions import summarise as describe_briefly
from sidequest.switching.variants import MODES, PAPER_ARMS, ArmSets
from sidequest.wording import duration, plural, rounded

REPORT = "report.html"
MOST_EPISODES = 15  # of each variant on each game, as in figure 5
MOST_POINTS = 400  # of an episode's trigger signal
ROOM = 3_000_000  # characters of JSON for all episodes
_FEW = 0.25  # share of variants that learned, below which a budget was too small
_LONG = 300  # steps: an episode can be seen whole in the viewer, more adds nothing
_MOST_ROWS = 200  # of the numbers below a figure
_MEDIA = {".png": "image/png", ".svg": "image/svg+xml"}
_CELL = ("label", "game", "budget", "settings")
"""Columns of `Records.runs` that seeds of one variant on one game share."""


class Number(NamedTuple):
    """A table's cell that is shown as `text` and sorted by `value`; None sorts last."""

    value: float | None
    text: str
    pad: str = ""
    """What the longest fraction of the column has more, so that decimal points align."""


class Table(NamedTuple):
    """A table of the page. The first cell of a row is its heading."""

    id: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str | Number]]


def write_report(
    records: Records, drawn: Sequence[Drawn], folder: Path | None = None
) -> Path:
    """Writes the report with the figures, by default into the study's folder."""
    path = (folder or records.folder) / REPORT
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synced(path, make_page(records, drawn, time=now()).encode())
    return path


def make_page(records: Records, drawn: Sequence[Drawn], *, time: str) -> str:
    """Returns the whole page as text."""
    environment = Environment(
        loader=PackageLoader("sidequest.figures", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    dumps = {"allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = dumps
    legend = _legend(records)
    environment.filters["named"] = _name_marker(legend, distinct(records.runs, "game"))
    script = "\n" + (files("sidequest.figures") / "assets/report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    judged = judge_all(records)
    return environment.get_template("report.html").render(
        records=records,
        summary=_summarise(records),
        legend=legend,
        looks={name: look(name) for name in legend},
        modes={mode: MODES[mode].words for mode in modes_in(legend)},
        probes=len(records.runs) - records.runs["usual"].sum(),
        facts=_facts(records),
        commands=_said([records.plan], "command") or _said(records.infos, "command"),
        gaps=gaps(records),
        told=[one for one in judged if one[1].state != "cannot tell"],
        untold=[one for one in judged if one[1].state == "cannot tell"],
        states=STATES,
        figures=[(one, _embed(one.paths), _numbers_of(one)) for one in drawn if one.paths],
        waiting=[one.entry for one in drawn if not one.paths],
        scores=_score_table(records),
        exploration=_exploration_table(records),
        episodes=read_episodes(records, legend),
        time=time,
        place=records.folder.resolve().name,
        plural=plural,
        some=some,
        listed=listed,
        listed_games=listed_games,
        script=script,
        digest=digest,
    )


def _embed(paths: Sequence[Path]) -> str:
    """Returns the smaller of PNG and SVG as a data address."""
    smallest = min(paths, key=lambda path: path.stat().st_size)
    content = base64.b64encode(smallest.read_bytes()).decode()
    return f"data:{_MEDIA[smallest.suffix]};base64,{content}"


# Names


def _legend(records: Records) -> dict[str, str]:
    """Returns each variant's name with a sentence that says what it does."""
    variants = known(distinct(records.runs, "variant"))
    legend = {}
    for name, variant in variants.items():
        words = describe_briefly(variant, _arms(records, name))
        means = f"Exploring ({variant.mode}) means {MODES[variant.mode].words}."
        legend[name] = f"{words[0].upper()}{words[1:]}. {means}"
    return legend


def _arms(records: Records, variant: str) -> ArmSets:
    """Returns the arms of a variant's first run; where it does not say, the paper's."""
    info = next(info for info in records.infos if info["variant"] == variant)
    own = info.get("config", {}).get("switching", {})
    names = ("explore_arms", "exploit_arms", "rate_arms")
    return ArmSets(*(own.get(*one) for one in zip(names, PAPER_ARMS, strict=True)))


def _name_marker(
    legend: Mapping[str, str], games: Iterable[str]
) -> Callable[[str], Markup]:
    """Returns a filter that explains every variant's name in a text, and sets `code`.

    A name may stand without its explore mode. Long names may be broken, so that tables
    fit on a phone: of variants after a comma, of games after a colon.
    """
    bare = {name.partition("-")[2]: words for name, words in legend.items()}
    bare = {name: words.partition(" Exploring")[0] for name, words in bare.items()}
    known_names = {**bare, **legend, **{str(escape(game)): "" for game in games}}
    names = "|".join(map(re.escape, sorted(known_names, key=len, reverse=True)))
    pattern = re.compile(rf"`([^`]+)`|({names or '(?!)'})")

    def mark(found: re.Match[str]) -> str:
        code, name = found.groups()
        if code:
            return f"<code>{code}</code>"
        broken = re.sub("([,:_])", r"\1<wbr>", name)
        words = known_names[name]
        title = f'<abbr class="name" title="{escape(words)}">{broken}</abbr>'
        return title if words else broken

    return lambda text: Markup(pattern.sub(mark, str(escape(text))))


# What was run


def _summarise(records: Records) -> dict[str, Any]:
    """Returns the numbers of the page's first lines (assets/summary.html)."""
    runs = records.runs
    cells = runs.filter("usual").group_by("variant", "game", maintain_order=True)
    cells = cells.agg(pl.mean("score"), learned=most_learned(), seeds=pl.n_unique("seed"))
    best = []
    for own in groups(cells.drop_nulls("score"), "game"):
        ranked = own.sort("score", descending=True, maintain_order=True)
        shown = [
            (name, rounded(score, 3)) for name, score in ranked["variant", "score"].rows()
        ]
        able, known = distinct(own.filter("learned"), "variant"), own["learned"].count()
        names, score = equal_first(shown), shown[0][1]
        counts = {"able": able, "variants": len(own), "known": known}
        best.append({"game": own["game"][0], "names": names, "score": score, **counts})
    shares = cells.group_by("game", maintain_order=True).agg(pl.mean("learned"))
    few = shares.filter(pl.col("learned").is_between(0, _FEW, "none"))
    games, finished = runs["game"].n_unique(), runs["finished"].sum()
    return {
        "planned": len(runs) + len(records.missing) + len(records.left_out),
        "finished": finished,
        "unfinished": len(runs) - finished + len(records.missing),
        "variants": runs["variant"].n_unique(),
        "games": games,
        "seeds": (cells["seeds"].min(), cells["seeds"].max()),
        "fewest": FEWEST_SEEDS,
        "needed": seeds_needed(max(1, games)),
        "frames": (runs["frames"].min(), runs["frames"].max()),
        "none": distinct(shares.filter(learned=0), "game"),
        "few": distinct(few, "game"),
        "best": best,
        "cases": len(cells),
        "failed": cells["learned"].count() - cells["learned"].sum(),
    }


def _facts(records: Records) -> dict[str, str]:
    """Returns games, budget, versions and machine; empty where nothing is known."""
    plan, infos = records.plan, records.infos
    seconds = [info["seconds"] for info in infos if info.get("seconds")]
    settings = plan.get("settings", {})
    budgets = records.runs.select("game", "frames").unique(maintain_order=True)
    frames = [f"{one:,}" for one in distinct(budgets, "frames")]
    if len(frames) > 1:
        frames = [f"{game} {one:,}" for game, one in budgets.iter_rows()]
    return {
        "Games": ", ".join(distinct(records.runs, "game")),
        "Seeds": ", ".join(map(str, sorted(distinct(records.runs, "seed")))),
        "Frames a run": "; ".join(frames),
        "Preset": plan.get("preset", ""),
        "Settings": ", ".join(f"{key}={as_text(one)}" for key, one in settings.items()),
        "Started": min(_said(infos, "started"), default=plan.get("started", "")),
        "Last finished": max(_said(infos, "finished"), default=""),
        "Longest run": f"{duration(max(seconds))} of training" if seconds else "",
        **{
            key.capitalize(): "; ".join(_said(infos, key))
            for key in ("device", "platform", "cores", "python", "versions")
        },
    }


def _said(infos: Iterable[dict[str, Any]], key: str) -> list[str]:
    """Returns the different values of a key, without those that are missing or empty."""
    values = [info[key] for info in infos if info.get(key)]
    texts = [
        ", ".join(" ".join(item) for item in one.items()) if key == "versions" else str(one)
        for one in values
    ]
    return list(dict.fromkeys(texts))


def gaps(records: Records) -> Table | None:
    """Returns runs that failed, are not finished, not started, or cannot be read."""
    places = {run["id"]: run["folder"] for run in records.plan.get("runs", [])}
    reasons = {
        str(records.folder / places[name]): reason
        for name, reason in read_failures(records.folder).items()
        if name in places
    }
    rows: list[list[str | Number]] = []
    started = records.runs.filter(~pl.col("finished")).iter_rows(named=True)
    missing = [
        {**item, "folder": str(records.folder / item["folder"]), "frames_done": None}
        for item in records.missing
    ]
    for run in (*started, *missing):
        reason, done = reasons.get(run["folder"], ""), share_done(run)
        begun = run["frames_done"] is not None
        state = "training, or interrupted" if begun else "not started"
        names = [run["variant"], run["game"], _number(run["seed"])]
        share = Number(done, f"{done:.0%}")
        rows.append([*names, "failed" if reason else state, share, reason])
    for one in records.left_out:
        place, none = one.folder.relative_to(records.folder).as_posix(), _number(None)
        rows.append([place, "", none, "cannot be read", none, one.reason])
    if not rows:
        return None
    headings = ("variant", "game", "seed", "state", "done", "reason")
    if not reasons and not records.left_out:
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    what = "not finished or not readable" if records.left_out else "not finished"
    return Table("gaps", f"{plural(len(rows), 'run')} {what}", headings, rows)


# What it scored, and how it explored


def _score_table(records: Records) -> Table:
    """Returns the final performance of each variant on each game, over its seeds."""
    score = pl.col("score")
    cells = records.runs.group_by(*_CELL, maintain_order=True).agg(
        score.mean().alias("mean"),
        score.min().alias("worst seed"),
        score.max().alias("best seed"),
        pl.when(pl.col("learned").is_not_null().any()).then(pl.col("learned").sum()),
        pl.len().alias("seeds"),
        pl.sum("finished"),
        pl.first("frames"),
        failed=~most_learned(),
    )
    normal = [human_normalised(*one) for one in cells.select("game", "mean").iter_rows()]
    if any(one is not None for one in normal):
        cells.insert_column(7, pl.Series("human-normalised", normal))
    marked = pl.when("failed").then(pl.col("label") + " †").otherwise("label")
    cells = cells.with_columns(label=marked).drop("budget", "settings", "failed")
    return _make_table("scores", "Final scores", cells)


def _exploration_table(records: Records) -> Table:
    """Returns how each variant explored on each game: means over seeds."""
    late = records.switches.filter("second_half")
    switches = late.group_by("run").agg(pl.sum("made", "asked"))
    names = {
        "early_p_X": "p_X, first 10%",
        "late_p_X": "p_X, last 10%",
        "late_med_X": "med_X",
        "late_rmed_X": "rmed_X",
        "late_target_rate": "target rate",
    }
    cells = (
        records.runs.join(switches, on="run", how="left", maintain_order="left")
        .group_by(*_CELL, maintain_order=True)
        .agg(pl.mean(*names), pl.sum("made", "asked", "episodes"))
        .filter(pl.col("episodes") > 0)
        .select(
            *("label", "game", *names),
            (pl.col("made") / pl.col("asked")).alias("realised / target"),
            "episodes",
        )
    )
    return _make_table("exploration", "Exploration statistics", cells.rename(names), 3)


def _numbers_of(drawn: Drawn) -> Table | None:
    """Returns the numbers that a figure shows; None if it has none."""
    if drawn.table is None or drawn.table.is_empty():
        return None
    caption = f"Numbers of the figure: {drawn.entry.title}"
    return _make_table(f"numbers-{drawn.entry.name}", caption, drawn.table[:_MOST_ROWS])


def _make_table(id: str, caption: str, frame: pl.DataFrame, digits: int = 4) -> Table:
    """Returns a frame as a table; texts come first, and decimal points are aligned."""
    frame = frame.rename({"label": "variant"}, strict=False)
    texts = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    frame = frame.select(*texts, pl.exclude(texts))
    columns = [
        [str(one or "–") for one in column]
        if column.name in texts
        else _aligned([_number(one, digits) for one in column])
        for column in frame
    ]
    return Table(id, caption, frame.columns, list(zip(*columns, strict=True)))


def _number(value: float | None, digits: int = 4) -> Number:
    """Returns a cell that shows a few digits; sorting uses all of them."""
    if value is None or np.isnan(value):
        return Number(None, "–")
    return Number(float(value), rounded(value, digits))


def _aligned(column: Sequence[Number]) -> list[Number]:
    """Returns a column whose numbers are padded to its longest fraction."""
    tails = ["".join(one.text.partition(".")[1:]) for one in column]
    longest = max(tails, key=len, default="")
    return [
        one._replace(pad=longest[len(tail) :])
        for one, tail in zip(column, tails, strict=True)
    ]


# Real episodes for the strip viewer: few enough to fit into a page


def read_episodes(
    records: Records, legend: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Returns recorded episodes of each variant on each game, spread evenly over training.

    The JSON that the page embeds: `periods` are the lengths of the modes in turn, exploit
    first; `reward` has (step, reward) where it is not zero; `start` is the episode to begin
    with and `interest` how much there is to see in it. If all is too much for one page,
    every cell gives up episodes until it fits.
    """
    cells = []
    for (label, game), runs in records.runs.group_by("label", "game", maintain_order=True):
        traces = of_runs(records.traces, runs, "seed").filter(pl.col("length") > 0)
        traces = traces.sort("frames", "run", "row")
        chosen = traces[spread(range(len(traces)), MOST_EPISODES)]
        read = read_traces(records, chosen, "modes", "signal", "reward")
        rows = read.sort("frames", "run", "row").iter_rows(named=True)
        if len(read):
            episodes = [_episode(row) for row in rows]
            says = (legend or {}).get(runs["variant"][0], "")
            names = {"variant": label, "game": game, "says": says}
            cells.append({**names, "episodes": episodes})
    most = MOST_EPISODES
    while most > 1 and len(json.dumps(cells)) > ROOM:
        most = max(1, most * 2 // 3)
        cells = [cell | {"episodes": spread(cell["episodes"], most)} for cell in cells]
    for cell in cells:
        interests = [interest(one) for one in cell["episodes"]]
        cell["interest"] = max(interests)
        cell["start"] = interests.index(max(interests))
    return cells


def interest(episode: Mapping[str, Any]) -> list[int]:
    """Returns how much there is to see in an episode, to be compared as lists are.

    First a trigger signal, then two explore periods, then a reward, then its length.
    """
    signal = any(one is not None for one in episode["signal"]["values"])
    explored = sum(length > 0 for length in episode["periods"][1::2])
    length = min(episode["length"], _LONG)
    return [int(signal), min(explored, 2), int(bool(episode["reward"])), length]


def spread(items: Sequence, most: int) -> list:
    """Returns at most `most` of the items, evenly spaced, with the last one."""
    if len(items) <= most:
        return list(items)
    places = np.linspace(len(items) - 1, 0, most).round().astype(int)
    return [items[place] for place in sorted(places)]


def _episode(row: dict[str, Any]) -> dict[str, Any]:
    periods = [(mode, len(list(same))) for mode, same in itertools.groupby(row["modes"])]
    lengths = [length for _, length in periods]
    rewards = [0.0 if one is None else float(one) for one in row["reward"]]
    return {
        "seed": row["seed"],
        "frames": row["frames"],
        "length": len(row["modes"]),
        "periods": lengths if periods[0][0] == "G" else [0, *lengths],
        "signal": thin(row["signal"]),
        "reward": [[step, _short(one)] for step, one in enumerate(rewards) if one],
        "return": _short(sum(rewards)),
    }


def thin(signal: Sequence[float | None]) -> dict[str, Any]:
    """Returns the largest of each `stride` steps, so that no peak is lost."""
    stride = -(-len(signal) // MOST_POINTS) or 1
    values = []
    for start in range(0, len(signal), stride):
        known = [one for one in signal[start : start + stride] if one is not None]
        values.append(_short(max(known)) if known else None)
    return {"stride": stride, "values": values}


def _short(value: float) -> float:
    return float(f"{value:.4g}")
