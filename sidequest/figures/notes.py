"""What a figure has to say about gaps: what is missing, going, or rests on one seed."""

from collections.abc import Collection, Iterable, Sequence

from sidequest.figures.reading import Records, Run, games_of, variants_of

NAMED = 3  # how many of a kind are named before "and n more"


def gap_notes(records: Records, runs: Sequence[Run]) -> list[str]:
    """Sentences about the runs that a figure draws, none where all is complete."""
    notes = []
    going = [
        f"{run.variant} on {run.game}, seed {run.seed} ({share_done(run):.0%})"
        for run in runs
        if not run.finished
    ]
    if going:
        verb = "is still going or was" if len(going) == 1 else "are still going or were"
        notes.append(
            f"{count(len(going), 'run')} {verb} cut short, drawn as far as it goes: "
            f"{some(going, 2)}."
        )
    variants = set(variants_of(runs))
    waiting = [
        f"{item['variant']} on {item['game']}, seed {item['seed']}"
        for item in records.missing
        if item["variant"] in variants
    ]
    if waiting:
        verb = "has" if len(waiting) == 1 else "have"
        notes.append(
            f"{count(len(waiting), 'planned run')} {verb} not started: {some(waiting, 2)}."
        )
    cells = {(run.variant, run.game) for run in runs}
    absent = [
        f"{variant} on {game}"
        for variant in variants_of(runs)
        for game in games_of(runs)
        if (variant, game) not in cells
    ]
    if absent:
        notes.append(f"No runs of {some(absent)}.")
    return notes + seed_notes(runs)


def seed_notes(runs: Sequence[Run]) -> list[str]:
    seeds: dict[tuple[str, str], set[int]] = {}
    for run in runs:
        seeds.setdefault((run.variant, run.game), set()).add(run.seed)
    single = [f"{variant} on {game}" for (variant, game), n in seeds.items() if len(n) < 2]
    if single and len(single) == len(seeds):
        return ["One seed each: nothing here says how much is luck."]
    return [f"One seed only: {some(single)}."] if single else []


def absent_note(wanted: Iterable[str], present: Collection[str]) -> list[str]:
    """Names the variants that the paper's figure has and these records do not."""
    absent = [name for name in wanted if name not in present]
    return [f"Not in these records: {some(absent, 6)}."] if absent else []


def share_done(run: Run) -> float:
    return min(1.0, run.frames_done / run.frames) if run.frames else 0.0


def some(names: Sequence[str], most: int = NAMED) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def count(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
