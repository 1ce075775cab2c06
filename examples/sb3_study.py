"""Does it help? Five ways to explore in Stable-Baselines3's DQN, ten seeds each.

The game is Gymnasium's FrozenLake 8x8 (not slippery): the only reward is at the far corner,
holes end the episode, and random play gets there in two episodes of a thousand. All
variants have the same network, replay and budget; the schedule of epsilon-greedy was tuned,
the settings of the switch were not. `docs/results/sb3/README.md` has the result.

python examples/sb3_study.py RESULTS.csv                  50 runs; resumes where it stopped
python examples/sb3_study.py RESULTS.csv --plot FILE.png  draws what is there
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sidequest.integrations.sb3 import with_switch

BASELINE = "epsilon-greedy"
VARIANTS = (
    BASELINE,
    "XU-step-level-0.1",
    "XU-intra(10,blind,0.01,G)",
    "XU-intra(10,informed,0.01,G)",
    "XU-intra(10,informed,p*,X)",
)
SEEDS, FRAMES, INTERVAL = range(10), 40_000, 2_000
LAKE = {"map_name": "8x8", "is_slippery": False}
SETTINGS = {
    **{"learning_rate": 1e-3, "buffer_size": 20_000, "learning_starts": 1_000},
    **{"batch_size": 64, "gamma": 0.97, "train_freq": 1, "target_update_interval": 500},
    **{"exploration_fraction": 0.3, "exploration_final_eps": 0.05},
    "policy_kwargs": {"net_arch": [64, 64]},
}


class Evaluate(BaseCallback):
    """Plays one greedy episode at intervals: game and policy have no chance in them."""

    def __init__(self):
        super().__init__()
        self.lake, self.rows = make_vec_env("FrozenLake-v1", 1, env_kwargs=LAKE), []

    def _on_step(self) -> bool:
        if self.num_timesteps % INTERVAL == 0:
            observation, done = self.lake.reset(), [False]
            while not done[0]:
                action, _ = self.model.predict(observation, deterministic=True)
                observation, reward, done, _ = self.lake.step(action)
            self.rows.append((self.num_timesteps, int(reward[0])))
        return True


def train(variant: str, seed: int, **changes) -> list[tuple[int, int]]:
    """Returns (frames, whether the greedy policy reaches the goal) over one run."""
    algorithm = DQN if variant == BASELINE else with_switch(DQN, variant)
    lakes = make_vec_env("FrozenLake-v1", 8, seed=seed, env_kwargs=LAKE)
    model = algorithm("MlpPolicy", lakes, seed=seed, **SETTINGS | changes)
    evaluate = Evaluate()
    model.learn(FRAMES, callback=evaluate)
    return evaluate.rows


def read(path: Path) -> dict[tuple[str, int], list[int]]:
    """Returns the evaluations of each run that is in the file."""
    runs: dict[tuple[str, int], list[int]] = {}
    if path.exists():
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                key = (row["variant"], int(row["seed"]))
                runs.setdefault(key, []).append(int(row["success"]))
    return runs


def run_all(path: Path) -> None:
    """Trains what is missing, all variants of one seed before the next seed."""
    for seed in SEEDS:
        for variant in VARIANTS:
            if (variant, seed) in read(path):
                continue
            rows = train(variant, seed)
            new = not path.exists()
            with open(path, "a", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(("variant", "seed", "frames", "success"))
                writer.writerows((variant, seed, *row) for row in rows)
            print(
                f"{variant:30s} seed {seed}  {np.mean([row[1] for row in rows]):.2f}",
                flush=True,
            )


def interval(samples: np.ndarray) -> tuple[float, float]:
    """Returns a 95% bootstrap interval of the mean over seeds."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(samples), size=(10_000, len(samples)))
    low, high = np.quantile(samples[draws].mean(1), (0.025, 0.975))
    return low, high


def plot(path: Path, picture: Path) -> None:
    """Draws the curves, and prints the mean of each variant over the whole run."""
    import matplotlib.pyplot as plt

    runs = read(path)
    seeds = [seed for seed in SEEDS if all((name, seed) in runs for name in VARIANTS)]
    if not seeds:
        raise SystemExit(f"{path} has no seed of all {len(VARIANTS)} variants yet")
    curves = {name: np.array([runs[name, seed] for seed in seeds]) for name in VARIANTS}
    frames = np.arange(1, FRAMES // INTERVAL + 1) * INTERVAL
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2))
    print(f"{len(seeds)} seeds; mean over the run, 95% interval, difference to {BASELINE}")
    for place, (name, curve) in enumerate(curves.items()):
        (line,) = axes[0].plot(frames, curve.mean(0), label=name)
        scores, base = curve.mean(1), curves[BASELINE].mean(1)
        low, high = interval(scores)
        axes[1].plot((low, high), (place, place), color=line.get_color(), linewidth=3)
        axes[1].plot(
            scores, np.full(len(seeds), place), "o", color=line.get_color(), alpha=0.3
        )
        axes[1].plot(scores.mean(), place, "|", color="black", markersize=16)
        less, more = interval(scores - base)
        print(
            f"{name:30s} {scores.mean():.2f} ({low:.2f} to {high:.2f})  "
            f"{(scores - base).mean():+.2f} ({less:+.2f} to {more:+.2f})  "
            f"solved at the end: {curve[:, -1].sum()} of {len(seeds)}"
        )
    axes[0].set(xlabel="frames", ylabel="greedy policy reaches the goal (share of seeds)")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].set(
        xlabel="mean over the run (seeds, 95% interval)",
        yticks=range(len(VARIANTS)),
    )
    axes[1].set_yticklabels(VARIANTS, fontsize=8)
    axes[1].invert_yaxis()
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"FrozenLake 8x8, Stable-Baselines3's DQN, {len(seeds)} seeds", fontsize=10
    )
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--plot", type=Path, help="draw instead of train")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.plot:
        plot(args.results, args.plot)
    else:
        run_all(args.results)


if __name__ == "__main__":
    main()
