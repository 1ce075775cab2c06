"""Frames/s of Stable-Baselines3's DQN with and without the switch, measured alternately.

Episodes of MountainCar last 200 steps for any agent this young, so all play the same game.

Run it with: python examples/sb3_speed.py [--env-id ID] [--envs N] [--rounds N]
"""

import argparse
import time
from statistics import median

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

from sidequest.integrations.sb3 import with_switch

VARIANTS = (
    "XU-intra(10,blind,0.01,G)",
    "XU-intra(10,informed,0.01,G)",
    "XU-intra(10,informed,p*,X)",
)
SETTINGS = {
    "SB3's defaults": {"buffer_size": 50_000},
    "RL Zoo's settings for MountainCar": {
        **{"learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "gamma": 0.98},
        **{
            "train_freq": 16,
            "gradient_steps": 8,
            "policy_kwargs": {"net_arch": [256, 256]},
        },
    },
}
FRAMES = 2_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="MountainCar-v0")
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    algorithms = {
        "epsilon-greedy": DQN,
        **{name: with_switch(DQN, name) for name in VARIANTS},
    }
    print(f"{args.env_id}, {args.envs} environments, {args.rounds} rounds, CPU time")
    for title, settings in SETTINGS.items():
        print(title)
        models = {}
        for name, algorithm in algorithms.items():
            env = make_vec_env(args.env_id, args.envs, seed=0)
            models[name] = algorithm("MlpPolicy", env, seed=0, **settings)
            models[name].learn(FRAMES, log_interval=None)
        seconds = {name: [] for name in models}
        for _ in range(args.rounds):
            for name, model in models.items():
                start = time.process_time()
                model.learn(FRAMES, log_interval=None, reset_num_timesteps=False)
                seconds[name].append(time.process_time() - start)
        for name, taken in seconds.items():
            pairs = zip(seconds["epsilon-greedy"], taken, strict=True)
            change = median(plain / own for plain, own in pairs) - 1  # within a round
            speed = FRAMES / median(taken)
            print(f"  {name:30s} {speed:8.0f} frames/s  {change:+.1%}")


if __name__ == "__main__":
    main()
