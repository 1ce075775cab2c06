"""The report's tables: what was run, what it scored, how it explored."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sidequest.environments.scores import SCORES, human_normalised
from sidequest.figures.claims.cells import final_score, group_seeds
from sidequest.figures.claims.measures import early_and_late, switches
from sidequest.figures.notes import count, share_done
from sidequest.figures.reading import Records, Run, column, games_of, variants_of
from sidequest.figures.report.markup import Html, Number, join, table, tag
from sidequest.records import read_failures, read_study


def lead(records: Records) -> str:
    """The page's first sentence."""
    runs = records.runs
    planned = len(runs) + len(records.missing) + len(records.left_out)
    if not runs:
        waiting = f" {count(planned, 'run')} planned." if planned else ""
        return f"No run has been started yet.{waiting}"
    done = sum(run.finished for run in runs)
    variants, games = (
        count(len(variants_of(runs)), "variant"),
        count(len(games_of(runs)), "game"),
    )
    return f"{variants} on {games}; {done} of {count(planned, 'run')} finished."


def facts(records: Records) -> Html:
    """Games, budget, versions and machine, as a list of terms."""
    plan = read_study(records.folder)
    runs = records.runs
    infos = [run.info for run in runs]
    variants, games = variants_of(runs), games_of(runs)
    seeds = sorted({run.seed for run in runs})
    starts, ends = known(infos, "started"), known(infos, "finished")
    seconds = [info["seconds"] for info in infos if info.get("seconds")]
    rows = {
        "Games": ", ".join(games),
        "Seeds": ", ".join(map(str, seeds)),
        "Budget": budgets(runs) if runs else "",
        "Preset": plan.get("preset", ""),
        "Settings": settings(plan.get("settings") or {}),
        "Started": min(starts, default=plan.get("started", "")),
        "Last finished": max(ends, default=""),
        "Longest run": f"{max(seconds):,.0f} s of training" if seconds else "",
        "Machine": distinct(machine(info) for info in infos),
        "Versions": distinct(versions(info) for info in infos),
    }
    items = [tag("dt", key) + tag("dd", value) for key, value in rows.items() if value]
    commands = [plan["command"]] if plan.get("command") else known(infos, "command")
    return join(
        [
            tag("dl", *map(Html, items), class_="facts"),
            folded("variant", variants),
            folded("command", commands),
        ]
    )


def folded(noun: str, texts: Sequence[str]) -> Html:
    """A list that opens when it is asked for."""
    if not texts:
        return Html()
    items = [tag("li", tag("code", text)) for text in texts]
    heading = tag("summary", count(len(texts), noun))
    return tag("details", heading, tag("ul", *items))


def known(infos: Iterable[dict[str, Any]], key: str) -> list[str]:
    """The different values of a key, without those that are missing or empty."""
    return list(dict.fromkeys(str(info[key]) for info in infos if info.get(key)))


def budgets(runs: Sequence[Run]) -> str:
    """Frames of a run; by game, where they differ between games."""
    frames = {
        game: distinct(f"{run.frames:,}" for run in runs if run.game == game)
        for game in games_of(runs)
    }
    if len(set(frames.values())) == 1:
        return f"{next(iter(frames.values()))} frames a run"
    return "frames a run: " + "; ".join(f"{game} {text}" for game, text in frames.items())


def settings(chosen: dict[str, Any]) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in chosen.items())


def machine(info: dict[str, Any]) -> str:
    parts = [info.get("device"), info.get("platform")]
    if info.get("cores"):
        parts.append(count(info["cores"], "core"))
    return ", ".join(str(part) for part in parts if part)


def versions(info: dict[str, Any]) -> str:
    libraries = [
        f"{name} {number}" for name, number in (info.get("versions") or {}).items()
    ]
    python = [f"Python {info['python']}"] if info.get("python") else []
    return ", ".join(python + libraries)


def distinct(texts: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def gaps(records: Records) -> Html:
    """Runs that failed, are going, were cut short or not started, or cannot be read; says
    so if there are none."""
    if not (records.runs or records.missing or records.left_out):
        return Html()
    reasons = failures(records)
    rows = []
    for run in records.runs:
        if not run.finished:
            reason = reasons.get(run.folder, "")
            state = "failed" if reason else "going, or cut short"
            rows.append((run.variant, run.game, number(run.seed), state, done(run), reason))
    for item in records.missing:
        reason = reasons.get(records.folder / item["folder"], "")
        state, share = "failed" if reason else "not started", Number(0.0, "0%")
        names = (item["variant"], item["game"], number(item["seed"]))
        rows.append((*names, state, share, reason))
    for one in records.left_out:
        place = one.folder.relative_to(records.folder).as_posix()
        rows.append((place, "", number(None), "cannot be read", number(None), one.reason))
    if not rows:
        return tag("p", "Every planned run is there and finished.")
    headings = ("variant", "game", "seed", "state", "done", "reason")
    if not reasons and not records.left_out:
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    what = "not finished or not readable" if records.left_out else "not finished"
    told = f"{count(len(rows), 'run')} {what}; what is there is shown all the same."
    which = table(headings, rows, caption=f"Runs that are {what}", id_="gaps")
    folded_rows = tag(
        "details", tag("summary", "Which, and why"), which, open=len(rows) <= 8
    )
    return join([tag("p", told, class_="alarm"), folded_rows])


def failures(records: Records) -> dict[Path, str]:
    """Why runs failed when the study was last started, by their folder."""
    reasons = read_failures(records.folder)
    places = {
        run["id"]: run["folder"] for run in read_study(records.folder).get("runs", [])
    }
    return {
        records.folder / places[id_]: reason
        for id_, reason in reasons.items()
        if id_ in places
    }


def score_table(records: Records) -> Html:
    """Final performance of each variant on each game, over its seeds."""
    human = any(run.game in SCORES for run in records.runs)
    rows = []
    for (label, _), runs in group_seeds(records.runs).items():
        scores = np.array([final_score(run) for run in runs])
        scores = scores[~np.isnan(scores)]
        finished = sum(run.finished for run in runs)
        row = [label, runs[0].game, *summary(scores)]
        if human:
            known = len(scores) and runs[0].game in SCORES
            row.append(
                number(human_normalised(runs[0].game, scores.mean()) if known else None)
            )
        row += [
            Number(len(runs), str(len(runs))),
            Number(finished, f"{finished} of {len(runs)}"),
        ]
        row.append(Number(runs[0].frames, f"{runs[0].frames:,}"))
        rows.append(row)
    headings = ["variant", "game", "mean", "least seed", "greatest seed"]
    headings += ["human-normalised"] * human + ["seeds", "finished", "budget, frames"]
    return filtered(headings, rows, caption="Final scores", id_="scores")


def exploration_table(records: Records) -> Html:
    """How each variant explored on each game: means over seeds."""
    rows = []
    for (label, _), runs in group_seeds(records.runs).items():
        episodes = sum(len(column(run, "episodes", "frames")[0]) for run in runs)
        if not episodes:
            continue
        pairs = {
            name: mean_of_seeds(runs, name)
            for name in ("p_X", "med_X", "rmed_X", "target_rate")
        }
        totals = list(switches(runs).values())
        made, asked = map(sum, zip(*totals, strict=True)) if totals else (0.0, 0.0)
        rows.append(
            [
                label,
                runs[0].game,
                *(number(value, 3) for value in pairs["p_X"]),
                *(number(pairs[name][1], 3) for name in ("med_X", "rmed_X", "target_rate")),
                number(made / asked if asked else None, 3),
                Number(episodes, f"{episodes:,}"),
            ]
        )
    headings = (
        *("variant", "game", "p_X, first 10%", "p_X, last 10%", "med_X", "rmed_X"),
        *("target rate", "realised / target", "episodes"),
    )
    return filtered(headings, rows, caption="Exploration statistics", id_="exploration")


def mean_of_seeds(runs: Sequence[Run], name: str) -> tuple[float | None, float | None]:
    """Over the first and the last 10% of training; None where no seed has any."""
    pairs = np.array([early_and_late(run, name) for run in runs]).T
    early, late = (values[~np.isnan(values)] for values in pairs)
    return (
        float(early.mean()) if len(early) else None,
        float(late.mean()) if len(late) else None,
    )


def filtered(
    headings: Sequence[str], rows: Sequence[Sequence], *, caption: str, id_: str
) -> Html:
    """A sortable table with a field above it that filters its rows."""
    if not rows:
        return tag("p", "Nothing has been recorded yet.", class_="note")
    field = tag("input", type="search", id=f"{id_}-filter", data_table=id_, size="24")
    words = tag("label", "Show rows with", for_=f"{id_}-filter")
    line = tag("div", words, field, tag("output"), class_="filter")
    return join([line, table(headings, rows, caption=caption, id_=id_)])


def summary(scores: np.ndarray) -> list[Number]:
    if not len(scores):
        return [number(None)] * 3
    return [number(float(one)) for one in (scores.mean(), scores.min(), scores.max())]


def done(run: Run) -> Number:
    return Number(share_done(run), f"{share_done(run):.0%}")


def number(value: float | None, digits: int = 4) -> Number:
    """A few digits are shown; sorting uses all of them."""
    if value is None or np.isnan(value):
        return Number(None, "–")
    large = abs(value) >= 10**digits
    return Number(float(value), f"{value:,.0f}" if large else f"{value:.{digits}g}")
