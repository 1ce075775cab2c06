"""A complete agent of your own that knows when to explore: tabular Q-learning on a lake.

The only reward of the game is at the far corner of an 8x8 lake full of holes, and an agent
that moves at random gets there in two episodes of a thousand. Eight lakes are played
side by side; `Switch` says for each of them whether its next action explores.

Run it with: python examples/own_agent.py [--steps N] [--variant NAME] [--seed N]
"""

import argparse

import gymnasium
import numpy as np

from sidequest import Switch

STREAMS, DISCOUNT, LEARNING_RATE = 8, 0.97, 0.5


def make_lakes():
    resets = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    game = {"map_name": "8x8", "is_slippery": False}
    return gymnasium.make_vec("FrozenLake-v1", STREAMS, vector_kwargs=resets, **game)


def greedy(q, states, rng):
    """The best action, and any of the best where several are equal."""
    ties = q[states] == q[states].max(1, keepdims=True)
    return np.argmax(ties * rng.random(ties.shape), axis=1)


def play_greedily(q, rng, steps=200):
    """Mean return of the episodes that end within `steps` steps, without exploration."""
    lakes, returns = make_lakes(), []
    states, _ = lakes.reset(seed=int(rng.integers(2**31)))
    for _ in range(steps):
        states, rewards, ended, cut, _ = lakes.step(greedy(q, states, rng))
        returns.extend(rewards[ended | cut])
    return float(np.mean(returns))


def learn(q, episode):
    """Q-learning on the steps of one episode, the last one first."""
    for state, action, reward, discount, arrived in reversed(episode):
        target = reward + discount * q[arrived].max()
        q[state, action] += LEARNING_RATE * (target - q[state, action])


def train(variant, steps, seed):
    rng, lakes = np.random.default_rng(seed), make_lakes()
    q = np.zeros((lakes.single_observation_space.n, lakes.single_action_space.n))
    switch = Switch(variant, streams=STREAMS, seed=seed)
    states, _ = lakes.reset(seed=seed)
    rewards, discounts = np.zeros(STREAMS), np.full(STREAMS, DISCOUNT)
    is_first, episodes = np.ones(STREAMS, bool), [[] for _ in range(STREAMS)]
    print(f"{variant}\nreturn of the greedy agent as it learns:")
    for step in range(steps + 1):
        if step % max(1, steps // 10) == 0:
            score = play_greedily(q, rng)
            print(
                f"{step:7d} steps  {'█' * round(40 * score):40s}  {score:.2f}", flush=True
            )
        explores = switch.step(
            reward=rewards, discount=discounts, value=q[states].max(1), is_first=is_first
        )
        anything = rng.integers(q.shape[1], size=STREAMS)
        actions = np.where(explores, anything, greedy(q, states, rng))
        after, rewards, ended, cut, info = lakes.step(actions)
        is_first, discounts = ended | cut, np.where(ended, 0.0, DISCOUNT)
        # Where an episode ends, `after` is already the first state of the next one.
        arrived = np.where(is_first, info.get("final_obs", after), after).astype(int)
        for b, episode in enumerate(episodes):
            episode.append((states[b], actions[b], rewards[b], discounts[b], arrived[b]))
            if is_first[b]:
                learn(q, episode)
                episode.clear()
        states = after
    return q, switch.summary()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="XU-intra(10,informed,p*,X)")
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    q, summary = train(args.variant, args.steps, args.seed)
    print(f"explored {summary['p_X']:.0%} of a mean episode; the bandit's arms in the end:")
    for name, arms in summary["bandits"].items():
        print(" ", name, {arm: round(p, 2) for arm, p in arms.items()})
    rng = np.random.default_rng(args.seed)
    chance, learned = play_greedily(np.zeros_like(q), rng, 2_000), play_greedily(q, rng)
    print(f"mean return: random {chance:.3f}, learned {learned:.3f}")


if __name__ == "__main__":
    main()
