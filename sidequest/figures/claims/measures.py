"""Numbers that sum up how a run, or a cell of runs, explored."""

from collections.abc import Sequence

import numpy as np
import polars
from jaxtyping import Float

from sidequest.figures.claims.cells import Cell
from sidequest.figures.reading import Run, column, table
from sidequest.figures.statistics import is_early, is_late


def early_and_late(run: Run, name: str) -> tuple[float, float]:
    """Mean of a column of `episodes` over the first and the last 10% of training."""
    frames, values = column(run, "episodes", "frames", name)
    known = ~np.isnan(values)
    frames, values = frames[known], values[known]
    parts = [is_within(frames, run.frames_done) for is_within in (is_early, is_late)]
    means = [values[part].mean() if part.any() else np.nan for part in parts]
    return float(means[0]), float(means[1])


def changes(cell: Cell) -> Float[np.ndarray, "N"]:
    """Change of p_X from the first to the last tenth of training, seed by seed."""
    pairs = [early_and_late(run, "p_X") for run in cell.runs]
    return np.array([late - early for early, late in pairs], float)


def p_of(run: Run) -> Float[np.ndarray, "N"]:
    return column(run, "episodes", "p_X")[0]


def mean_p(cell: Cell) -> float:
    return float(np.mean([np.nanmean(p_of(run)) for run in cell.runs]))


def exploit_periods(run: Run) -> list[int]:
    """Lengths of the exploit periods between two explore periods of recorded episodes."""
    lengths = []
    for modes in table(run, "traces")["modes"]:
        between = modes.strip("G").split("X")
        lengths += [len(one) for one in between if one]
    return lengths


def traced_p(run: Run) -> float:
    modes = "".join(table(run, "traces")["modes"])
    return modes.count("X") / len(modes)


def unevenness(run: Run) -> float:
    """Standard deviation over mean: 0 for a counter, about 1 for a coin."""
    lengths = np.array(exploit_periods(run), float)
    return float(lengths.std() / lengths.mean())


def preferred_steps(run: Run) -> float:
    """Expectation of log10(n_G) under the bandit's probabilities in the last tenth."""
    rows = _exploit_arms(run)
    times = rows["frames"].n_unique()
    return float((rows["arm"].log10() * rows["probability"]).sum() / max(times, 1))


def prefers_longer(run: Run) -> bool:
    """Whether that is more than it would be if all arms were equally likely."""
    arms = _exploit_arms(run)["arm"].unique().log10()
    return len(arms) > 0 and preferred_steps(run) > float(np.mean(arms.to_numpy()))


def _exploit_arms(run: Run) -> polars.DataFrame:
    return _late_bandits(run).filter(polars.col("bandit") == "exploit")


def _late_bandits(run: Run) -> polars.DataFrame:
    """The table `bandits`, last tenth of training."""
    (frames,) = column(run, "bandits", "frames")
    return table(run, "bandits").filter(is_late(frames, run.frames_done))


def shifted(run: Run) -> float:
    """How much probability a bandit has moved between its arms: half of sum |p - 1/K|.

    Mean probabilities of the last tenth of training; of several bandits the one that
    moved most; 0 without any.
    """
    if not len(table(run, "bandits")):
        return 0.0
    arms = (
        _late_bandits(run).group_by("bandit", "arm").agg(polars.col("probability").mean())
    )
    distance = (polars.col("probability") - 1 / polars.len()).abs().sum() / 2
    moved = arms.group_by("bandit").agg(distance)["probability"].to_list()
    return max(moved, default=0.0)


def switches(runs: Sequence[Run]) -> dict[float, tuple[float, float]]:
    """For each target rate: switches made and switches asked for, second half of training.

    Asked for are the target rate times the exploit steps.
    """
    totals: dict[float, tuple[float, float]] = {}
    for run in runs:
        names = ("frames", "length", "p_X", "realised_rate", "target_rate")
        frames, length, p_X, realised, target = column(run, "episodes", *names)
        exploits = length * (1 - p_X)
        known = (frames > run.frames_done / 2) & (exploits > 0) & ~np.isnan(target)
        for rate in np.unique(target[known]):
            rows = known & (target == rate)
            made, asked = totals.get(float(rate), (0.0, 0.0))
            made += float(np.nansum((realised * exploits)[rows]))
            totals[float(rate)] = made, asked + float(rate * exploits[rows].sum())
    return totals
