"""`sidequest evaluate`: plays greedy episodes with the parameters of a run."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from sidequest.cli.options import Flag, option


def evaluate(
    run: Annotated[Positional[Path], option("RUN")],
    /,
    episodes: Annotated[int, option("NUMBER")] = 30,
    seed: Annotated[int, option("NUMBER")] = 0,
    json: Flag = False,
) -> None:
    """Plays greedy episodes with a run's parameters and prints what they scored.

    Args:
        run: Folder of a run, as `sidequest train` prints it.
        episodes: How many to play, 1 to 100000.
        seed: Of the episodes, 0 or more.
        json: Print one JSON object and nothing else.
    """
    from sidequest.cli.progress import Meter
    from sidequest.cli.settings import use_compilation_cache
    from sidequest.errors import InvalidRequest
    from sidequest.records import RUN_FILE

    if not 1 <= episodes <= 100_000:
        raise InvalidRequest(f"episodes is {episodes}; it is 1 to 100000")
    if not 0 <= seed < 2**31:
        raise InvalidRequest(f"seed is {seed}; it is 0 or more, and below 2^31")
    if not (run / RUN_FILE).exists():
        raise InvalidRequest(f"{run} holds no run: there is no {RUN_FILE} in it")
    use_compilation_cache()

    from sidequest.runs.evaluation import evaluate_run

    meter = Meter()

    def report(ended: int, steps: int) -> None:
        meter(f"{ended} of {episodes} episodes, {steps:,} steps")

    scores = evaluate_run(run, episodes, seed, report)
    meter.clear()
    if json:
        import json as writer

        print(writer.dumps(scores))
    else:
        print(describe(scores))


def describe(scores: dict) -> str:
    """What `evaluate_run` found, in a few lines."""
    count = scores["episodes"]
    played = f"{count} greedy episode{'s' if count > 1 else ''}"
    lines = [
        f"{scores['variant']} on {scores['game']}, seed {scores['seed']}",
        f"return  {scores['mean']:.4g} (mean of {played})",
        f"        {scores['min']:.4g} to {scores['max']:.4g}, "
        f"median {scores['median']:.4g}",
        f"length  {scores['length']:.4g} (mean)",
    ]
    if scores["human_normalised"] is not None:
        normalised = f"{scores['human_normalised']:.1%}"
        lines.append(f"human   {normalised} (0% is a random policy, 100% a human)")
    return "\n".join(lines)
