"""Learning curves that compare one choice: the informed triggers (figure 8), off-policy
correction (figure 15) and the explore modes (figure 16)."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sidequest.figures.claims.cells import final_score
from sidequest.figures.curves import (
    SPREAD,
    Panel,
    draw_panels,
    some_styles,
)
from sidequest.figures.granularity import evaluated_runs
from sidequest.figures.notes import absent_note, gap_notes
from sidequest.figures.pairs import (
    modes_in,
    setting_of,
    shared_settings,
    trigger_groups,
)
from sidequest.figures.reading import (
    Records,
    Run,
    games_of,
    on_game,
    runs_of,
    uses_watkins,
    variants_of,
)

TRIGGERS = {
    "informed": "value promise",
    "informed:mismatch": "action mismatch",
    "informed:variance": "value variance",
}
CORRECTIONS = {"cut": "Watkins: traces are cut", "uncut": "uncorrected"}
NEEDS_TRIGGERS = (
    "Nothing to draw yet: this needs evaluated runs that differ in the informed trigger "
    "alone, such as XI-intra(10,informed,p*,X) and XI-intra(10,informed:mismatch,p*,X)."
)
NEEDS_CORRECTION = (
    "Nothing to draw yet: this needs evaluated runs of one variant with and without the "
    "setting learning.watkins."
)
NEEDS_MODES = (
    "Nothing to draw yet: this needs the same setting with two explore modes, such as "
    "XU-step-level-0.01 and XI-step-level-0.01."
)


def ranking(lines: Mapping[str, Sequence[Run]]) -> str:
    """`a 3.1, b 2.0`: final means over seeds, best first."""
    means = {
        label: float(np.mean([final_score(run) for run in runs]))
        for label, runs in lines.items()
        if runs
    }
    ranked = sorted(means, key=lambda label: -means[label])
    return ", ".join(f"{label} {means[label]:.3g}" for label in ranked)


def trigger_panels(records: Records) -> list[list[Panel]]:
    """A section for each group of variants, a panel for each game."""
    runs = evaluated_runs(records)
    sections = []
    for group in trigger_groups(variants_of(runs)):
        own = [run for run in runs if run.variant in group.values()]
        name = next(iter(group.values())).replace("informed:", "").split(",")
        title = ",".join([name[0], "·", *name[2:]])
        panels = []
        for game in games_of(own):
            lines = {kind: runs_of(own, one, game) for kind, one in group.items()}
            if sum(map(bool, lines.values())) > 1:  # one alone is compared with nothing
                panels.append(Panel(f"{title}\n{game}", lines))
        sections += [panels] if panels else []
    return sections


def draw_triggers(records: Records) -> Figure | None:
    """Figure 8."""
    sections = trigger_panels(records)
    if not sections:
        return None
    shown = _runs(sections)
    present = [
        label for label in TRIGGERS if any(label in p.lines for s in sections for p in s)
    ]
    notes = [SPREAD, *absent_note(TRIGGERS, present), *gap_notes(records, shown)]
    return draw_panels(
        sections,
        some_styles(list(TRIGGERS)),
        title="Three signals to switch by",
        names={label: TRIGGERS[label] for label in present},
        notes=notes,
    )


def triggers_show(records: Records) -> str:
    return _show(records, trigger_panels(records), TRIGGERS, NEEDS_TRIGGERS)


def correction_panels(records: Records) -> list[list[Panel]]:
    """Runs with and without trace cutting that share everything else."""
    runs = [run for run in records.runs if not np.isnan(final_score(run))]
    sections = []
    for name in variants_of(runs):
        own = [run for run in runs if run.variant == name]
        panels = []
        for game in games_of(own):
            lines = {
                kind: [run for run in on_game(own, game) if uses_watkins(run) == cut]
                for kind, cut in (("cut", True), ("uncut", False))
            }
            lines = {kind: _distinct_seeds(found) for kind, found in lines.items()}
            if all(lines.values()):
                panels.append(Panel(f"{name}\n{game}", lines))
        if panels:
            sections.append(panels)
    return sections


def _distinct_seeds(runs: Sequence[Run]) -> list[Run]:
    """The default and the same choice made by hand are one: a seed counts once."""
    return list({run.seed: run for run in runs}.values())


def draw_correction(records: Records) -> Figure | None:
    """Figure 15."""
    sections = correction_panels(records)
    if not sections:
        return None
    return draw_panels(
        sections,
        some_styles(list(CORRECTIONS)),
        title="Off-policy correction",
        names=CORRECTIONS,
        notes=[SPREAD, *gap_notes(records, _runs(sections))],
    )


def correction_shows(records: Records) -> str:
    return _show(records, correction_panels(records), CORRECTIONS, NEEDS_CORRECTION)


def mode_panels(records: Records) -> list[list[Panel]]:
    """A section for each game, a panel for each explore mode, a line for each setting."""
    runs = evaluated_runs(records)
    settings = shared_settings(variants_of(runs))
    own = [run for run in runs if setting_of(run.variant) in settings]
    return [
        [
            Panel(
                f"{mode}  {game}",
                {one: runs_of(own, f"{mode}-{one}", game) for one in settings},
            )
            for mode in modes_in(variants_of(own))
        ]
        for game in games_of(own)
    ]


def draw_modes(records: Records) -> Figure | None:
    """Figure 16."""
    sections = mode_panels(records)
    if not sections:
        return None
    settings = list(sections[0][0].lines)
    notes = [SPREAD, *gap_notes(records, _runs(sections))]
    figure = draw_panels(
        sections,
        some_styles(settings),
        title="The same settings with different explore modes",
        names={one: one for one in settings},
        notes=notes,
    )
    for game in games_of(_runs(sections)):
        _share_heights([axes for axes in figure.axes if axes.get_title().endswith(game)])
    return figure


def _share_heights(panels: Sequence[Axes]) -> None:
    """Modes on one game are compared by eye, so their axes are the same."""
    lows, highs = zip(*(axes.get_ylim() for axes in panels if axes.lines), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))


def modes_show(records: Records) -> str:
    sections = mode_panels(records)
    names = {label: label for s in sections for panel in s for label in panel.lines}
    return _show(records, sections, names, NEEDS_MODES)


def _runs(sections: Sequence[Sequence[Panel]]) -> list[Run]:
    found = [
        run
        for section in sections
        for panel in section
        for own in panel.lines.values()
        for run in own
    ]
    return list({run.folder: run for run in found}.values())


def _show(
    records: Records,
    sections: Sequence[Sequence[Panel]],
    names: Mapping[str, str],
    needs: str,
) -> str:
    """Final means of each panel's lines."""
    if not sections:
        return needs
    sentences = []
    for section in sections:
        for panel in section:
            told = ranking({names[label]: own for label, own in panel.lines.items()})
            sentences.append(f"{panel.title.replace(chr(10), ' on ')}: {told}.")
    return " ".join(["Final means.", *sentences, *gap_notes(records, _runs(sections))])
