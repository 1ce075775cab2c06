"""The records of a study as polars frames: read once, then only filtered and joined.

A folder is a study's, with `study.json` that says what was planned, or any other folder
with runs below it. Runs may be finished, still training or interrupted. A run with a file
that cannot be read, such as a table that was torn when a disk failed, is left out and named
in `Records.left_out`. Nothing here needs JAX.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.figure import Figure

from sidequest.config import WITHOUT_EFFECT, recorded
from sidequest.errors import CorruptFile, VariantError
from sidequest.figures.statistics import has_learned
from sidequest.records import find_runs, read_run, read_study, read_table
from sidequest.switching.variants import Variant, parse

_WATKINS = "learning.watkins"
_NUMBER, _TEXT = pl.Float64(), pl.String()
_COLUMNS: dict[str, dict[str, Any]] = {
    "learning": {},
    "evaluations": {"return": _NUMBER},
    "episodes": dict.fromkeys(
        ("length", "p_X", "med_X", "rmed_X", "realised_rate", "target_rate"), _NUMBER
    ),
    "bandits": {"bandit": _TEXT, "arm": _NUMBER, "probability": _NUMBER},
    "traces": {"length": pl.Int64(), "modes": _TEXT},
}
"""The columns that figures need of each table, besides `frames`."""
_GROWING = ("learning", "evaluations", "episodes")
"""Tables whose newest row says how far a run is."""
_PARTS = ("early", "late", "second_half")
"""Parts of training: the first and the last 10%, and the second half."""


class LeftOut(NamedTuple):
    """A run that cannot be read."""

    folder: Path
    reason: str
    """One sentence that names the file."""


class Records(NamedTuple):
    """All runs below a folder. In every table, `run` is the row of the run in `runs`."""

    name: str
    title: str
    folder: Path
    plan: dict[str, Any]
    """What study.json says; empty if there is none."""
    infos: tuple[dict[str, Any], ...]
    """What run.json says, of each row of `runs`."""
    missing: tuple[dict[str, Any], ...]
    """Runs of the plan that have no folder yet."""
    left_out: tuple[LeftOut, ...]
    runs: pl.DataFrame
    """One row per run, in the plan's order or else by path. Columns:

        run, folder, variant, game, seed
        mode, setting    the two parts of the variant's name; mode is null if this version
                         cannot parse the name
        frames           those that a finished run played, if it says so; else the budget
        frames_done      frames of the newest row of any table
        finished
        settings         JSON: settings in which the run differs from most runs of its game
        budget           the budget to two digits: populations round it to whole iterations
        label            the variant, with these settings
        watkins          whether traces are cut (Watkins' Q(λ))
        usual            whether it has the usual settings of its variant and game, so that
                         it may be pooled with others; a probe of a setting is not
        evaluations, episodes, bandits, traces      number of rows in each table
        score            mean return of the evaluation episodes of the last 10% of training;
                         if none ended so late, of the newest evaluation; null without any
        scored           number of those episodes
        learned          whether the score is beyond random play's (`has_learned`); null if
                         nobody knows what random play scores
        mean_p_X, std_p_X                           over all episodes
        early_Y, late_Y  mean over episodes of the first and of the last 10% of training; Y
                         is p_X, med_X, rmed_X or target_rate
        shifted          probability that a bandit moved between its arms by the last 10%
                         of training, half of sum |p - 1/K|; of several bandits the largest
        preferred        mean of log10(n_G) under the arms' probabilities then
        even             the same if all arms were equally likely
    """
    evaluations: pl.DataFrame
    """`run`, `frames`, `return`."""
    episodes: pl.DataFrame
    """`run`, `frames`, `p_X`, `rmed_X` of each training episode."""
    switches: pl.DataFrame
    """Switches to explore, one row per `run`, `target_rate` and `second_half` of training:
    `made`, and `asked` for, which is the target rate times the exploit steps. Without
    symmetric informed variants: their rate is that of both modes together."""
    bandits: pl.DataFrame
    """`run`, `frames`, `bandit`, `arm`, `probability`."""
    traces: pl.DataFrame
    """`run`, `frames`, `length`, `explored` (number of explore steps) and `row` (in the
    run's table), of each recorded episode; `read_traces` reads what happened in it."""


class Plot(NamedTuple):
    """A figure with what there is to say about it, all from the same numbers."""

    figure: Figure
    caption: str
    """What these runs show, and what is missing."""
    table: pl.DataFrame
    """The numbers that the figure shows."""


class RunTables(NamedTuple):
    """One run: what run.json says, and what figures need of its tables."""

    folder: Path
    info: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    frames_done: int


def read_records(folder: Path) -> Records:
    """Reads all runs below a folder, in the study's order or else by their path.

    Raises:
        CorruptFile: If study.json cannot be read.
    """
    plan = read_study(folder)
    planned = [folder / item["folder"] for item in plan.get("runs", [])]
    order = {path: place for place, path in enumerate(planned)}
    found, left_out = [], []
    for path in sorted(find_runs(folder), key=lambda one: order.get(one, len(order))):
        try:
            info = read_run(path)
            tables = {
                name: read_table(path, name, ["frames", *columns], info)
                for name, columns in _COLUMNS.items()
            }
            found.append(select_tables(path, info, tables))
        except CorruptFile as fault:
            left_out.append(LeftOut(path, str(fault)))
    return make_records(folder, plan, found, left_out)


def select_tables(
    folder: Path, info: dict[str, Any], tables: Mapping[str, pl.DataFrame]
) -> RunTables:
    """Selects what figures need of a run's tables, and marks the parts of its training."""
    whole = {
        name: _with_types(tables.get(name), {"frames": pl.Int64(), **columns})
        for name, columns in _COLUMNS.items()
    }
    growing = pl.concat([whole[name].select("frames") for name in _GROWING])
    end = growing.select(pl.col("frames").max().fill_null(0)).item()
    # All modes of all episodes are too much to hold: `read_traces` reads those of some.
    explored = pl.col("modes").str.count_matches("X", literal=True).cast(pl.Int64())
    whole["traces"] = whole["traces"].select(
        "frames", "length", explored=explored, row=pl.int_range(pl.len())
    )
    del whole["learning"]  # no figure shows it
    frames = pl.col("frames")
    parts = (frames <= end / 10, frames > end - end / 10, frames > end / 2)
    parts = dict(zip(_PARTS, parts, strict=True))
    marked = {name: table.with_columns(**parts) for name, table in whole.items()}
    return RunTables(folder, info, marked, end)


def _with_types(frame: pl.DataFrame | None, types: Mapping[str, Any]) -> pl.DataFrame:
    """Returns the columns with these types; one that is not there is null."""
    if frame is None or not len(frame):
        return pl.DataFrame(schema=dict(types))
    columns = {name: pl.col(name) if name in frame else pl.lit(None) for name in types}
    return frame.select(
        column.cast(types[name], strict=False).alias(name)
        for name, column in columns.items()
    )


def make_records(
    folder: Path,
    plan: dict[str, Any],
    found: Sequence[RunTables],
    left_out: Sequence[LeftOut] = (),
) -> Records:
    """Joins the tables of all runs and measures each run.

    Of two runs of the same kind and seed, such as one started twice into two folders,
    the one that got further counts. The tables of the single runs are emptied, so that
    memory holds each number once.
    """
    planned = {folder / item["folder"]: item for item in plan.get("runs", [])}
    furthest: dict[tuple, tuple[RunTables, dict[str, Any]]] = {}
    for run, settings in zip(found, _unusual_settings(found), strict=True):
        named = (run.info[key] for key in ("variant", "game", "seed"))
        kind = (*named, _as_json(settings))
        known = furthest.get(kind)
        if known is None or run.frames_done > known[0].frames_done:
            furthest[kind] = run, settings
    chosen = [run for run, _ in furthest.values()]
    none = select_tables(folder, {}, {})
    tables = {
        name: pl.concat(
            run.tables.pop(name).insert_column(0, pl.lit(number, pl.Int64()).alias("run"))
            for number, run in enumerate([*chosen, none])
        )
        for name in tuple(none.tables)
    }
    runs = _describe_runs(list(furthest.values()), planned)
    of_both_modes = pl.col("setting").str.starts_with("intra(=,informed")
    there = {run.folder for run in (*found, *left_out)}
    return Records(
        name=plan.get("name", folder.resolve().name),
        title=plan.get("title", folder.resolve().name),
        folder=folder,
        plan=plan,
        infos=tuple(run.info for run in chosen),
        missing=tuple(item for place, item in planned.items() if place not in there),
        left_out=tuple(left_out),
        runs=_mark_usual(_measure(runs, tables)),
        evaluations=tables["evaluations"].select("run", "frames", "return"),
        episodes=tables["episodes"].select("run", "frames", "p_X", "rmed_X"),
        switches=_count_switches(of_runs(tables["episodes"], runs.filter(~of_both_modes))),
        bandits=tables["bandits"].drop(_PARTS),
        traces=tables["traces"].drop(_PARTS),
    )


def _measure(runs: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Adds how much each run recorded, its score, and how it explored."""
    # By frames, not by the number of evaluations: beside an emulator, episodes end when
    # they end. Every episode of the last 10% counts once.
    frames, p_X, probability = pl.col("frames"), pl.col("p_X"), pl.col("probability")
    newest = frames == frames.max().over("run")
    counted = pl.when(pl.col("late").any().over("run")).then("late").otherwise(newest)
    evaluations = tables["evaluations"].drop_nulls("return").filter(counted)
    means = [
        pl.col(name).filter(pl.col(phase)).mean().alias(f"{phase}_{name}")
        for name in ("p_X", "med_X", "rmed_X", "target_rate")
        for phase in ("early", "late")
    ]
    bandits = tables["bandits"].filter("late")
    # In order: sums of the same numbers in another order have other last bits.
    arms = bandits.group_by("run", "bandit", "arm", maintain_order=True)
    arms = arms.agg(probability.mean())
    moved = arms.group_by("run", "bandit").agg((probability - 1 / pl.len()).abs().sum() / 2)
    # Of a rate, the steps that it takes on average: log10(1 / rate).
    steps, exploit = pl.col("arm").log10().abs(), bandits.filter(bandit="exploit")
    mean_steps = (steps * probability).sum() / frames.n_unique()
    by_run = {name: table.group_by("run") for name, table in tables.items()}
    for measured in (
        *(rows.agg(pl.len().alias(name)) for name, rows in by_run.items()),
        evaluations.group_by("run").agg(score=pl.mean("return"), scored=pl.len()),
        by_run["episodes"].agg(*means, mean_p_X=p_X.mean(), std_p_X=p_X.std(ddof=0)),
        moved.group_by("run").agg(shifted=probability.max()),
        exploit.group_by("run").agg(preferred=mean_steps, even=steps.unique().mean()),
    ):
        runs = runs.join(measured, on="run", how="left", maintain_order="left")
    counts = pl.col(*tables, "scored").cast(pl.Int64())  # unsigned ones do not subtract
    runs = runs.with_columns(counts.fill_null(0), pl.col("shifted").fill_null(0))
    scores = runs.select("game", "score", "scored").rows()
    learned = pl.Series([has_learned(*one) for one in scores], dtype=pl.Boolean())
    return runs.with_columns(learned=learned)


def _count_switches(episodes: pl.DataFrame) -> pl.DataFrame:
    """Returns `Records.switches`."""
    exploits = pl.col("length") * (1 - pl.col("p_X"))
    counts = {"made": pl.col("realised_rate"), "asked": pl.col("target_rate")}
    kind = ("run", "target_rate", "second_half")
    return (
        episodes.filter(exploits > 0, pl.col("target_rate").is_not_null())
        .group_by(kind)
        .agg((rate * exploits).sum().alias(name) for name, rate in counts.items())
        .sort(kind)
    )


def _describe_runs(
    found: Sequence[tuple[RunTables, dict[str, Any]]], planned: Mapping[Path, dict]
) -> pl.DataFrame:
    """Returns one row per run, with what run.json and the plan say."""
    rows = []
    for number, (run, settings) in enumerate(found):
        name, info = run.info["variant"], run.info
        variant = read_variant(name)
        budget = int(planned.get(run.folder, {}).get("frames", info.get("frames", 0)))
        finished = bool(info.get("finished"))
        played = info.get("frames_done") if finished else None
        text = ", ".join(
            f"{key}={as_text(value)}" for key, value in sorted(settings.items())
        )
        rows.append(
            {
                "run": number,
                "folder": str(run.folder),
                "variant": name,
                "game": info["game"],
                "seed": info["seed"],
                "mode": variant.mode if variant else None,
                "setting": name.partition("-")[2],
                "frames": played or budget,  # runs play whole chunks, which may be more
                "frames_done": run.frames_done,
                "finished": finished,
                "settings": _as_json(settings),
                "probed": len(planned.get(run.folder, {}).get("settings", {})),
                "budget": f"{budget:.1e}",
                "label": f"{name} [{text}]" if text else name,
                "watkins": _uses_watkins(info, variant),
            }
        )
    numbers = ("run", "seed", "frames", "frames_done", "probed")
    flags = ("finished", "watkins")
    texts = ("folder", "variant", "game", "mode", "setting", "settings", "budget", "label")
    types: dict[str, Any] = dict.fromkeys(texts, pl.String())
    types |= dict.fromkeys(flags, pl.Boolean()) | dict.fromkeys(numbers, pl.Int64())
    return pl.DataFrame(rows, schema=types)


def _mark_usual(runs: pl.DataFrame) -> pl.DataFrame:
    """Adds the column `usual`: runs of a variant on a game that may be pooled.

    A probe, such as trace cutting on and off, runs a variant with other settings beside
    the usual ones. The usual settings are the most frequent; of equally frequent ones
    those to which the plan adds fewest, then the shortest: those of most runs of the game.
    """
    settings, length = pl.col("settings"), pl.col("settings").str.len_chars()
    runs = runs.with_columns(equal=pl.len().over("variant", "game", "settings"))
    ranked = settings.sort_by(
        "equal", "probed", length, descending=[True, False, False], maintain_order=True
    )
    usual = ranked.first().over("variant", "game")
    return runs.with_columns(usual=usual == settings).drop("equal", "probed")


def _uses_watkins(info: Mapping[str, Any], variant: Variant | None) -> bool:
    """The setting decides; where it is left open, variants with intrinsic reward cut."""
    chosen = info.get("config", {}).get("learning", {}).get("watkins")
    return bool(variant and variant.mode == "XI") if chosen is None else bool(chosen)


def _unusual_settings(found: Sequence[RunTables]) -> list[dict[str, Any]]:
    """Returns, for each run, the settings in which it differs from most runs of its game;
    where two values are equally frequent, both are named. Those that change nothing of
    what is learned do not count."""
    runs = [
        (run.info["game"], recorded(run.info.get("config", {}), run.info["game"]))
        for run in found
    ]
    keys = {key for _, settings in runs for key in settings}
    counts: defaultdict[tuple[str, str], Counter] = defaultdict(Counter)
    for game, settings in runs:
        for key in keys:  # a former version may lack some
            counts[game, key][_as_json(settings.get(key))] += 1

    def is_usual(game: str, key: str, value: Any) -> bool:
        (most, count), *others = counts[game, key].most_common(2)
        return _as_json(value) == most and count not in (number for _, number in others)

    return [
        {
            key: value
            for key, value in settings.items()
            if not (key in WITHOUT_EFFECT or is_usual(game, key, value))
        }
        for game, settings in runs
    ]


def without_watkins(settings: str) -> str:
    """Returns `settings` of a run, a row of `runs`, without whether traces are cut."""
    kept = {key: one for key, one in json.loads(settings).items() if key != _WATKINS}
    return _as_json(kept)


def as_text(value: Any) -> str:
    """Returns a setting's value as `--set` takes it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@cache
def read_variant(name: str) -> Variant | None:
    """Parses a variant's name; returns None for a name that this version cannot read."""
    try:
        return parse(name)
    except VariantError:
        return None


def of_runs(table: pl.DataFrame, runs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the rows of a table that belong to some runs, with columns of those runs."""
    return table.join(runs.select("run", *columns), on="run", maintain_order="left")


def arrange(runs: pl.DataFrame, **orders: Sequence[str]) -> pl.DataFrame:
    """Returns the runs whose columns have one of these values, in their order."""
    runs = runs.filter(pl.col(name).is_in(values) for name, values in orders.items())
    ranks = [pl.col(name).cast(pl.Enum([*one])) for name, one in orders.items()]
    return runs.sort(ranks, maintain_order=True)


def distinct(frame: pl.DataFrame, column: str) -> list[Any]:
    """Returns the different values of a column in the order in which they first appear."""
    return frame[column].unique(maintain_order=True).to_list()


def groups(frame: pl.DataFrame, *columns: str) -> list[pl.DataFrame]:
    """Returns the parts of a frame that share some values, in order of appearance."""
    return frame.partition_by(columns, maintain_order=True)


def read_traces(records: Records, rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns rows of `Records.traces` with more columns: `modes`, `signal` or `reward`.

    Raises:
        CorruptFile: If a file cannot be read.
    """
    folders = records.runs["folder"]
    types = {one: _TEXT if one == "modes" else pl.List(_NUMBER) for one in columns}
    parts = [
        rows.clear().with_columns(pl.lit(None, types[one]).alias(one) for one in types)
    ]
    for own in rows.partition_by("run", maintain_order=True):
        run = own["run"][0]
        whole = read_table(folders[run], "traces", columns, records.infos[run])
        parts.append(own.hstack(_with_types(whole, types)[own["row"]]))
    return pl.concat(parts)


def exploit_periods(traces: pl.DataFrame) -> pl.DataFrame:
    """Returns the lengths of the exploit periods between two explore periods of an episode.

    One row per period, with the columns `run` and `steps`; `traces` needs `modes`.
    """
    periods = pl.col("modes").str.strip_chars("G").str.extract_all("G+")
    return (
        traces.select("run", periods.alias("steps"))
        .explode("steps")
        .drop_nulls()
        .with_columns(pl.col("steps").str.len_bytes().cast(pl.Int64()))
    )


def most_learned() -> pl.Expr:
    """Returns whether most of some runs learned; null if of none of them it is known."""
    learned = pl.col("learned").drop_nulls()
    return pl.when(learned.len() > 0).then(2 * learned.sum() > learned.len())


def share_done(run: Mapping[str, Any]) -> float:
    """Returns the share of its budget that a run, a row of `runs`, has behind it."""
    return min(1.0, (run["frames_done"] or 0) / run["frames"]) if run["frames"] else 0.0
