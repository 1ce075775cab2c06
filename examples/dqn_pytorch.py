"""DQN in one file, in the style of CleanRL, exploring when a switch says so.

Five statements, marked `# switch`, differ from plain epsilon-greedy; there, one line is

    explore = rng.random(args.num_envs) < epsilon

Run it with: python examples/dqn_pytorch.py [--variant NAME] [--env-id ID] [--seed N] ...
"""

import argparse
import time

import gymnasium
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from sidequest import Switch, step_arguments  # switch


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="XU-intra(10,informed,0.01,G)")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--buffer-size", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-starts", type=int, default=2_000)
    parser.add_argument("--target-interval", type=int, default=1_000)
    return parser.parse_args()


class QNetwork(nn.Module):
    def __init__(self, envs):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(np.prod(envs.single_observation_space.shape), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, envs.single_action_space.n),
        )

    def forward(self, x):
        return self.network(x)


class ReplayBuffer:
    def __init__(self, size, envs):
        shape = envs.single_observation_space.shape
        self.data = {
            "obs": np.zeros((size, *shape), np.float32),
            "next_obs": np.zeros((size, *shape), np.float32),
            "actions": np.zeros(size, np.int64),
            "rewards": np.zeros(size, np.float32),
            "discounts": np.zeros(size, np.float32),
        }
        self.size, self.added = size, 0

    def add(self, **rows):
        places = (self.added + np.arange(len(rows["actions"]))) % self.size
        for name, data in rows.items():
            self.data[name][places] = data
        self.added += len(places)

    def sample(self, rng, batch_size):
        places = rng.integers(min(self.added, self.size), size=batch_size)
        return {name: torch.from_numpy(data[places]) for name, data in self.data.items()}


def main():
    args = parse_args()
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.make_vec(
        *(args.env_id, args.num_envs, "sync"), vector_kwargs={"autoreset_mode": same_step}
    )
    q_network, target_network = QNetwork(envs), QNetwork(envs)
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    target_network.load_state_dict(q_network.state_dict())
    buffer = ReplayBuffer(args.buffer_size, envs)
    switch = Switch(args.variant, streams=args.num_envs, seed=args.seed)  # switch
    arrived = {}  # switch

    obs, _ = envs.reset(seed=args.seed)
    returns, finished, start = np.zeros(args.num_envs), [], time.time()
    for step in range(0, args.total_timesteps, args.num_envs):
        with torch.no_grad():
            q_values = q_network(torch.as_tensor(obs, dtype=torch.float32)).numpy()
        explore = switch.step(value=q_values.max(1), **arrived)  # switch
        random_actions = rng.integers(envs.single_action_space.n, size=args.num_envs)
        actions = np.where(explore, random_actions, q_values.argmax(1))

        next_obs, rewards, terminated, truncated, infos = envs.step(actions)
        arrived = step_arguments(  # switch
            rewards, terminated, truncated, autoreset=same_step, discount=args.gamma
        )
        returns += rewards
        done = terminated | truncated
        finished += returns[done].tolist()
        returns[done] = 0.0
        real_next_obs = next_obs.copy()
        for index in np.flatnonzero(done):
            real_next_obs[index] = infos["final_obs"][index]
        discounts = args.gamma * (1 - terminated)
        buffer.add(
            obs=obs,
            next_obs=real_next_obs,
            actions=actions,
            rewards=rewards,
            discounts=discounts,
        )
        obs = next_obs

        if step > args.learning_starts:
            batch = buffer.sample(rng, args.batch_size)
            with torch.no_grad():
                target_max = target_network(batch["next_obs"]).max(dim=1).values
                target = batch["rewards"] + batch["discounts"] * target_max
            chosen = q_network(batch["obs"]).gather(1, batch["actions"][:, None])[:, 0]
            loss = F.mse_loss(chosen, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step // args.target_interval != (step - args.num_envs) // args.target_interval:
            target_network.load_state_dict(q_network.state_dict())
        tenth = max(1, args.total_timesteps // args.num_envs // 10)
        if (step // args.num_envs + 1) % tenth == 0:
            speed = step / (time.time() - start)
            print(
                f"{step + args.num_envs:8d} steps  return {np.mean(finished[-50:]):7.1f}  "
                f"{speed:6.0f} steps/s",
                flush=True,
            )
    print(f"explored {switch.summary()['p_X']:.0%} of a mean episode")


if __name__ == "__main__":
    main()
