"""`sidequest evaluate`: plays greedy episodes with the parameters of a finished run."""

from pathlib import Path
from typing import Annotated

import tyro


def evaluate(
    run: tyro.conf.Positional[Path],
    /,
    episodes: int = 30,
    seed: int = 0,
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Plays greedy episodes with a run's parameters and prints what they scored.

    Args:
        run: Folder of a run, as `sidequest train` prints it.
        episodes: How many to play, 1 or more.
        seed: Of the episodes.
        json: Print one JSON object and nothing else.
    """
    from sidequest.cli import Refusal
    from sidequest.cli.settings import use_compilation_cache
    from sidequest.runs.records import RUN_FILE

    if episodes < 1:
        raise Refusal(f"episodes is {episodes}; it is 1 or more")
    if not (run / RUN_FILE).exists():
        raise Refusal(f"{run} holds no run: there is no {RUN_FILE} in it")
    use_compilation_cache()

    from sidequest.runs.evaluation import evaluate_run

    scores = evaluate_run(run, episodes, seed)
    if json:
        import json as writer

        print(writer.dumps(scores))
        return
    print(f"{scores['variant']} on {scores['game']}, seed {scores['seed']}")
    print(f"return  {scores['mean']:.4g} (mean of {episodes} greedy episodes)")
    print(
        f"        {scores['min']:.4g} to {scores['max']:.4g}, median {scores['median']:.4g}"
    )
    print(f"length  {scores['length']:.4g} (mean)")
