"""Frames/s of Stable-Baselines3's DQN with and without the switch, measured alternately.

Episodes of MountainCar last 200 steps for any agent this young, so all play the same game.

Run it with: python examples/sb3_speed.py [--env-id ID] [--envs N] [--rounds N]
"""

import argparse
import time

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

from sidequest.integrations.sb3 import with_switch

VARIANTS = (
    "XU-intra(10,blind,0.01,G)",
    "XU-intra(10,informed,0.01,G)",
    "XU-intra(10,informed,p*,X)",
)
FRAMES = 4_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="MountainCar-v0")
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    algorithms = {
        "epsilon-greedy": DQN,
        **{name: with_switch(DQN, name) for name in VARIANTS},
    }
    models, seconds = {}, {name: [] for name in algorithms}
    for name, algorithm in algorithms.items():
        env = make_vec_env(args.env_id, args.envs, seed=0)
        models[name] = algorithm("MlpPolicy", env, seed=0, buffer_size=50_000)
        models[name].learn(FRAMES, log_interval=None)
    for _ in range(args.rounds):
        for name, model in models.items():
            start = time.process_time()
            model.learn(FRAMES, log_interval=None, reset_num_timesteps=False)
            seconds[name].append(time.process_time() - start)
    plain = np.array(seconds["epsilon-greedy"])
    print(f"{args.env_id}, {args.envs} environments, {args.rounds} rounds, CPU time")
    for name, taken in seconds.items():
        ratio = np.median(plain / taken)
        print(f"{name:30s} {FRAMES / np.median(taken):8.0f} frames/s  {ratio - 1:+.0%}")


if __name__ == "__main__":
    main()
