"""Games by name."""

import jax
import jax.numpy as jnp
import pytest

from sidequest.environments import registry
from sidequest.environments.base import CompiledEnvironment, HostedGame
from sidequest.errors import InvalidRequest
from sidequest.types import Timestep

GAMES = {game.name: game for game in registry.games()}
COMPILED = [name for name, game in GAMES.items() if game.suite != "atari"]


def test_lists_all_suites_with_scores():
    suites = {game.suite for game in GAMES.values()}
    assert suites == {"atari", "minatar", "bsuite", "classic", "minigrid", "probe"}
    assert sum(game.human_score is not None for game in GAMES.values()) == 57
    assert GAMES["frostbite"] == ("frostbite", "atari", 65.2, 4334.7, 0.25)
    # MinAtar's games share names with Atari's, not their scores.
    assert GAMES["minatar:breakout"].human_score is None


@pytest.mark.parametrize("name", COMPILED)
def test_every_compiled_game_builds_and_can_be_scanned(name):
    environment = registry.make(name)
    assert isinstance(environment, CompiledEnvironment)
    spec = environment.spec
    assert spec.name == name

    def play(key):
        def step(state, key):
            return environment.step(key, state, jnp.asarray(spec.num_actions - 1))

        state, first = environment.reset(key)
        return first, jax.lax.scan(step, state, jax.random.split(key, 2))[1]

    first, rest = jax.eval_shape(play, jax.random.key(0))
    scalar = [jax.ShapeDtypeStruct((), kind) for kind in ("float32", *3 * ["bool"])]
    shown = jax.ShapeDtypeStruct(spec.observation_shape, spec.observation_dtype)
    assert first == Timestep(shown, *scalar)
    assert rest.observation.shape == (2, *spec.observation_shape)
    assert rest.observation.dtype == spec.observation_dtype


def test_atari_is_a_game_to_start_groups_of():
    game = registry.make("frostbite")
    assert isinstance(game, HostedGame)
    assert game.spec.observation_shape == (210, 160, 3)
    assert game.spec.num_actions == 18
    assert game.spec.max_steps == 27_000
    assert game.spec.frames_per_step == 4


@pytest.mark.parametrize(
    ("name", "own"),
    [("pong", 0.25), ("minatar:breakout", 0.1), ("minigrid:empty_5x5", 0.1)]
    + [("classic:cartpole", 0.1), ("bsuite:deep_sea", 0.0), ("probe:constant", 0.0)],
)
def test_sticky_actions_are_the_games_own_or_those_asked_for(name, own):
    assert registry.resolve_sticky_actions(name) == GAMES[name].sticky_actions == own
    assert registry.resolve_sticky_actions(name, 0.5) == 0.5
    assert registry.resolve_sticky_actions(name, 0.0) == 0.0


def test_atari_gets_the_stickiness_that_was_asked_for():
    (group,) = registry.make("pong", 0.125).build(groups=1, environments=1, seed=0)
    assert group.sticky == 0.125
    group.close()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("frostbit", "frostbite"),
        ("MsPacman", "ms_pacman"),
        ("ALE/MontezumaRevenge-v5", "montezuma_revenge"),
        ("minigrid:doorkey_8x8", "minigrid:door_key_8x8"),
        ("door_key_8x8", "minigrid:door_key_8x8"),
        ("Breakout-MinAtar", "minatar:breakout"),
        ("minatar:freway", "minatar:freeway"),
        ("bsuite:deep_sea_11", "bsuite:deep_sea_10"),
    ],
)
def test_a_wrong_name_gets_the_nearest(wrong, right):
    with pytest.raises(InvalidRequest, match=right):
        registry.make(wrong)


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(
        InvalidRequest, match="called 'qqqq'. `sidequest games` lists them.$"
    ):
        registry.check("qqqq")


def test_a_game_of_ones_own(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    environment = registry.make("probe:constant")
    registry.register("mine:game", lambda: environment)
    assert registry.make("mine:game") is environment
    assert registry.games()[-1] == ("mine:game", "mine", None, None, 0.0)
    with pytest.raises(ValueError, match="already"):
        registry.register("mine:game", lambda: environment)
    with pytest.raises(ValueError, match="already"):
        registry.register("minigrid:unlock", lambda: environment)
    with pytest.raises(ValueError, match="suite:game"):
        registry.register("game", lambda: environment)


def test_what_is_registered_must_be_a_game(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("mine:nothing", lambda: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="mine:nothing: .* a NoneType, neither"):
        registry.make("mine:nothing")


def test_sticky_actions_that_would_not_reach_emulators_are_refused(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    game = HostedGame(lambda **_: [], registry.make("pong").spec)
    registry.register("mine:hosted", lambda: game)
    assert registry.make("mine:hosted") is game
    with pytest.raises(InvalidRequest, match="mine:hosted: it starts its own emulators"):
        registry.make("mine:hosted", 0.25)


def test_a_game_of_ones_own_in_a_suite_of_ours_is_as_it_was_made(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    game = HostedGame(lambda **_: [], registry.make("pong").spec)
    registry.register("classic:hosted", lambda: game)
    assert registry.make("classic:hosted") is game
    assert registry.kind("classic:hosted") == "frames"


def test_the_papers_settings_are_for_frames():
    assert registry.fitting_preset("paper", "pong") == "paper"
    assert registry.fitting_preset("small", "pong") == "small-frames"
    assert registry.fitting_preset("small", "minatar:breakout") == "small"
    with pytest.raises(InvalidRequest, match="for Atari's frames, not for minatar:brea"):
        registry.fitting_preset("paper", "minatar:breakout")
