"""Atari on the host, by ALE's own vector environment and the paper's protocol.

Raw 210x160 RGB frames, one at a time; each action is repeated for 4 frames with rewards
summed and not clipped, and the last two frames are merged by their maximum; an action
sticks with probability 0.25 at every frame; 18 actions; lives are not shown; no no-ops
at the start; episodes are cut after 108,000 frames (30 minutes of play).
"""

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from sidequest.environments.base import EnvironmentSpec, HostedGame
from sidequest.types import Timestep

_ACTION_REPEAT = 4
_MAX_FRAMES = 108_000
_STICKY = 0.25

# They have no mode for one player, and ALE ends the whole process when asked for one.
_TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}


@cache
def rom_names() -> tuple[str, ...]:
    """Returns the games that ale-py ships, without importing it."""
    package = importlib.util.find_spec("ale_py")
    assert package is not None and package.origin is not None
    roms = Path(package.origin).parent / "roms"
    return tuple(sorted({rom.stem for rom in roms.glob("*.bin")} - _TWO_PLAYERS))


def make(game: str, sticky: float = _STICKY) -> HostedGame:
    """Returns a game by its ROM's name; no emulator is started yet."""
    build = partial(build_groups, game, sticky=sticky)
    return HostedGame(build, _spec(game, _MAX_FRAMES))


def build_groups(
    game: str,
    *,
    groups: int,
    environments: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda built, total: None,
    **settings: Any,
) -> list["AtariGroup"]:
    """Starts `groups` groups of `environments` emulators; each takes about 0.2 s.

    Args:
        progress: Called with the emulators built so far and in all, after each group.
        settings: Those of `AtariGroup`.
    """
    seeds = emulator_seeds(seed, groups * environments).reshape(groups, environments)
    built = []
    for group_seeds in seeds:
        built.append(AtariGroup(game, group_seeds, **settings))
        progress(len(built) * environments, seeds.size)
    return built


def emulator_seeds(seed: int, count: int) -> Int32[np.ndarray, "count"]:
    """Returns independent seeds for `count` emulators; ALE takes 31 bits, not below 0."""
    words = np.random.SeedSequence(seed).generate_state(count, np.uint32)
    return (words >> 1).astype(np.int32)


class AtariGroup:
    """A group of emulators of one game; a `HostedEnvironment`."""

    def __init__(
        self,
        game: str,
        seeds: Int32[np.ndarray, "B"],
        *,
        sticky: float = _STICKY,
        max_frames: int = _MAX_FRAMES,
        threads: int = 0,
    ):
        """Starts one emulator for each seed; 0 threads are one for each core."""
        from ale_py import AtariVectorEnv

        self.spec, self.sticky = _spec(game, max_frames), sticky
        height, width, _ = self.spec.observation_shape
        self._emulators: Any = AtariVectorEnv(
            game,
            len(seeds),
            num_threads=threads,
            max_num_frames_per_episode=max_frames,
            repeat_action_probability=sticky,
            full_action_space=True,
            # Ends and starts an episode in one step, as our environments do.
            autoreset_mode="SameStep",
            # The screen's own size, so that nothing is resized.
            img_height=height,
            img_width=width,
            grayscale=False,
            stack_num=1,
            frameskip=_ACTION_REPEAT,
            maxpool=True,
            noop_max=0,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
        )
        observation, _ = self._emulators.reset(seed=seeds)
        no = np.zeros(len(seeds), bool)
        self._first = Timestep(observation[:, 0], no.astype(np.float32), no, no, ~no)
        self._in_flight = True

    def send(self, actions: Int32[np.ndarray, "B"]) -> None:
        # Both mistakes would leave ALE waiting for ever.
        if self._in_flight:
            raise RuntimeError("send() again before recv().")
        if actions.min() < 0 or actions.max() >= self.spec.num_actions:
            raise ValueError(
                f"Actions must lie in 0..{self.spec.num_actions - 1}, got {actions}."
            )
        self._emulators.send(actions)
        self._in_flight = True

    def recv(self) -> Timestep:
        """Waits for the emulators; observations are [B, 210, 160, 3] of uint8. ALE never
        writes to the arrays again, so they may be kept."""
        if not self._in_flight:
            raise RuntimeError("recv() without a send() before it.")
        self._in_flight = False
        if self._first is not None:
            first, self._first = self._first, None
            return first
        # The second axis is that of stacked frames.
        observation, reward, terminated, truncated, _ = self._emulators.recv()
        reward, ended = reward.astype(np.float32), terminated | truncated
        return Timestep(observation[:, 0], reward, terminated, truncated, ended)

    def close(self) -> None:
        """Ends the emulators and their threads; only `close` may follow."""
        self._emulators = None


def _spec(game: str, max_frames: int) -> EnvironmentSpec:
    screen_shape, num_actions = _screen_and_actions(game)
    return EnvironmentSpec(
        name=game,
        observation_shape=screen_shape,
        observation_dtype=np.dtype(np.uint8),
        num_actions=num_actions,
        maximum=255.0,
        frames_per_step=_ACTION_REPEAT,
        max_steps=-(-max_frames // _ACTION_REPEAT),
    )


@cache
def _screen_and_actions(game: str) -> tuple[tuple[int, int, int], int]:
    """Asks ALE: nearly all are 210x160x3 with 18 actions; 13 are taller, two have 9."""
    if game not in rom_names():
        raise ValueError(f"ale-py has no game {game!r} for one player.")
    import ale_py
    from ale_py import roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.loadROM(str(roms.get_rom_path(game)))
    height, width = emulator.getScreenDims()
    return (height, width, 3), len(emulator.getLegalActionSet())
