"""The four granularities: who stands for each, and their curves by game (figure 10)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from sidequest.figures.claims.cells import final_score
from sidequest.figures.curves import (
    GRANULARITY_STYLES,
    SPREAD,
    Panel,
    draw_panels,
)
from sidequest.figures.notes import absent_note, count, gap_notes
from sidequest.figures.pairs import (
    GRANULARITIES,
    modes_in,
    representatives,
    setting_of,
)
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    on_game,
    plain_runs,
    variants_of,
)

NEEDS = (
    "Nothing to draw yet: this needs evaluated runs of at least two granularities of one "
    "explore mode, such as XU-step-level-0.01 and XU-intra(10,informed,p*,X)."
)


def evaluated_runs(records: Records) -> list[Run]:
    """What may be compared: runs of the usual settings that have a score."""
    return [run for run in plain_runs(records) if not np.isnan(final_score(run))]


def lines_of(runs: Sequence[Run], mode: str) -> dict[str, list[Run]]:
    """Runs of the variant that stands for each granularity."""
    chosen = representatives(variants_of(runs), mode)
    return {
        granularity: [run for run in runs if run.variant == name]
        for granularity, name in chosen.items()
    }


def all_lines(records: Records) -> dict[str, dict[str, list[Run]]]:
    """For each explore mode; modes with a single granularity compare nothing."""
    runs = evaluated_runs(records)
    lines = {mode: lines_of(runs, mode) for mode in modes_in(variants_of(runs))}
    return {mode: own for mode, own in lines.items() if len(own) > 1}


def flat(lines: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[Run]:
    return [run for own in lines.values() for runs in own.values() for run in runs]


def legend_names(lines: Mapping[str, Mapping[str, Sequence[Run]]]) -> dict[str, str]:
    """The legend's texts: the variants by their names without the explore mode."""
    names = {}
    for granularity in GRANULARITIES:
        settings = {
            setting_of(own[granularity][0].variant)
            for own in lines.values()
            if granularity in own
        }
        if settings:
            names[granularity] = " or ".join(sorted(settings))
    return names


def wanted(mode: str) -> list[str]:
    return [f"{mode}-{setting}" for setting in GRANULARITIES.values()]


def draw_learning_curves(records: Records) -> Figure | None:
    """Figure 10: a panel for each explore mode and game."""
    lines = all_lines(records)
    if not lines:
        return None
    sections = [
        [
            Panel(
                f"{mode}  {game}", {key: on_game(runs, game) for key, runs in own.items()}
            )
            for game in games_of(flat({mode: own}))
        ]
        for mode, own in lines.items()
    ]
    return draw_panels(
        sections,
        GRANULARITY_STYLES,
        title="Return of the greedy policy, by granularity",
        names=legend_names(lines),
        notes=[SPREAD, *missing_notes(records, lines)],
    )


def missing_notes(
    records: Records, lines: Mapping[str, Mapping[str, Sequence[Run]]]
) -> list[str]:
    runs = flat(lines)
    expected = [name for mode in lines for name in wanted(mode)]
    return [*absent_note(expected, variants_of(runs)), *gap_notes(records, runs)]


def curves_show(records: Records) -> str:
    """In how many games each granularity ends highest."""
    lines = all_lines(records)
    if not lines:
        return NEEDS
    sentences = []
    for mode, own in lines.items():
        firsts: dict[str, int] = {}
        games = games_of(flat({mode: own}))
        for game in games:
            means = {
                key: np.mean([final_score(run) for run in on_game(runs, game)])
                for key, runs in own.items()
                if on_game(runs, game)
            }
            best = max(means, key=lambda key: means[key])
            firsts[best] = firsts.get(best, 0) + 1
        told = ", ".join(f"{key} in {n}" for key, n in firsts.items())
        sentences.append(
            f"{mode}: of {count(len(games), 'game')}, the highest mean is {told}."
        )
    return " ".join([*sentences, *missing_notes(records, lines)])
