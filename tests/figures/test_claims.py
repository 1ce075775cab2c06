"""Each claim on made-up records whose verdict is known: the states that it can have."""

import numpy as np
import pytest

from sidequest.figures.claims import (
    CLAIMS,
    STATES,
    binomial_tail,
    judge_all,
    judged_cells,
    match,
)
from sidequest.figures.pairs import (
    GRANULARITIES,
    blind_partner,
    counting_partner,
    greedy_start_partner,
)
from sidequest.switching.variants import parse
from tests.figures import fakes
from tests.figures.fakes import Fake, make_records

BY_NAME = {claim.name: claim for claim in CLAIMS}
HIGH, LOW = (10.0, 11.0, 12.0), (1.0, 2.0, 3.0)
GAMES = ("a", "b")
*BASELINES, _ = GRANULARITIES.values()


def everywhere(variant, scores=(1.0, 2.0, 3.0), **rest):
    return [Fake(variant, game, scores, **rest) for game in GAMES]


def granularities(mode, intra, base):
    cells = everywhere(f"{mode}-intra(10,informed,p*,X)", intra)
    for baseline in BASELINES:
        cells += everywhere(f"{mode}-{baseline}", base)
    return cells


def pair(first, second, high=HIGH, low=LOW, **rest):
    return everywhere(first, high, **rest) + everywhere(second, low, **rest)


def watkins(on, off):
    variant = "XI-intra(10,informed,p*,X)"
    return everywhere(variant, on) + everywhere(
        variant, off, settings={"learning.watkins": False}
    )


def soft(xs, xu):
    """Three settings on two games, each with its scores."""
    settings = ("step-level-0.01", "episode-level-*", "intra(10,informed,p*,X)")
    cells = []
    for setting, soft_score, uniform_score in zip(settings, xs, xu, strict=True):
        cells += everywhere(f"XS-{setting}", soft_score)
        cells += everywhere(f"XU-{setting}", uniform_score)
    return cells


def same_amount(step, seeds=3):
    """Four variants that explore as much: six pairs a game; `step` lies between scores."""
    names = (
        "(10,blind,100,G)",
        "(10,blind,0.01,G)",
        "(10,informed,0.01,G)",
        "(1,blind,10,G)",
    )
    cells = []
    for place, name in enumerate(names):
        base = np.arange(seeds) + place * step
        cells += everywhere(f"XU-intra{name}", tuple(float(one) for one in base))
    return cells


BLIND, INFORMED = "XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"
COIN, COUNTER = "XU-intra(10,blind,p*,X)", "XU-intra(10,blind,n*,X)"
START_X, START_G = "XU-intra(=,blind,n*,X)", "XU-intra(=,blind,n*,G)"
EVEN = "G" + ("X" + "G" * 9) * 5
UNEVEN = "G" + "X" + "G" * 2 + "X" + "G" * 25 + "X" + "GG" + "X" + "G" * 16 + "X" + "G" * 2
LONG = {10: 0.05, 100: 0.05, 1_000: 0.2, 10_000: 0.7}
SHORT = {10: 0.7, 100: 0.2, 1_000: 0.05, 10_000: 0.05}
UNIFORM = dict.fromkeys(LONG, 0.25)

MANY, AS_MANY = (tuple(float(seed) for seed in range(first, 60, 2)) for first in (0, 1))

# claim: (records that support it, records that do not, records that do not suffice)
CASES = {
    "granularity-XU": (
        granularities("XU", HIGH, LOW),
        granularities("XU", MANY, AS_MANY),  # 30 seeds could tell, and see no difference
        granularities("XU", HIGH, LOW)[:-1],  # one baseline has one game only
    ),
    "granularity-XI": (
        granularities("XI", HIGH, LOW),
        granularities("XI", LOW, HIGH),
        granularities("XU", HIGH, LOW),  # another explore mode
    ),
    "some-variant": (
        granularities("XU", LOW, LOW) + everywhere("XU-intra(1,blind,100,G)", HIGH),
        granularities("XU", (3.0, 50.0, 99.0), LOW),  # the worst seed equals the best
        granularities("XU", HIGH, LOW)[:-2],  # three baselines
    ),
    "informed-scores": (
        pair(INFORMED, BLIND),
        pair(BLIND, INFORMED),
        pair(INFORMED, "XU-intra(10,blind,1000,G)"),  # another rate
    ),
    "starting-mode": (
        [Fake(START_X, "a", HIGH), Fake(START_G, "a", LOW)]
        + [Fake(START_X, "b", LOW), Fake(START_G, "b", HIGH)],
        pair(START_X, START_G),  # the same everywhere
        [Fake(START_X, "a", HIGH), Fake(START_G, "a", LOW)],
    ),
    "coin-scores": (pair(COIN, COUNTER), pair(COUNTER, COIN), pair(COIN, COUNTER)[:-1]),
    "off-policy": (
        watkins(LOW, HIGH),
        watkins(HIGH, LOW),
        watkins((1.0, 5.0, 6.0), (2.0, 3.0, 4.0)),  # a wide interval
    ),
    "soft-similar": (
        soft([(1.0,) * 4] * 3, [(1.0,) * 4] * 3),
        soft([HIGH] * 3, [LOW] * 3),
        soft([(1.0, 5.0, 6.0)] * 3, [(2.0, 3.0, 4.0)] * 3)[:4],
    ),
    "soft-flatter": (
        soft([(1.0,) * 3] * 3, [(0.0,) * 3, (5.0,) * 3, (9.0,) * 3]),
        soft([(0.0,) * 3, (5.0,) * 3, (9.0,) * 3], [(1.0,) * 3] * 3),
        soft([LOW] * 3, [HIGH] * 3)[:8],  # two settings
    ),
    "mismatch": (
        everywhere("XI-intra(10,informed:mismatch,p*,X)", HIGH)
        + pair("XI-intra(10,informed,p*,X)", "XI-intra(10,informed:variance,p*,X)", LOW),
        everywhere("XI-intra(10,informed:mismatch,p*,X)", (5.0, 6.0, 7.0))
        + pair("XI-intra(10,informed,p*,X)", "XI-intra(10,informed:variance,p*,X)"),
        pair("XI-intra(10,informed:mismatch,p*,X)", "XI-intra(10,informed,p*,X)"),
    ),
    "amount": (same_amount(3.0), same_amount(0.0, seeds=8), same_amount(0.0)),
    "adaptation": (
        everywhere(COUNTER, p=(0.5, 0.2), arms=LONG),
        everywhere(COUNTER, p=(0.5, 0.2), arms=UNIFORM),  # only episodes got longer
        everywhere(COUNTER, (1.0, 2.0), p=(0.5, 0.2), arms=LONG),  # two seeds
    ),
    "counting-bandit": (
        everywhere(COUNTER, p=(0.5, 0.2), arms=LONG),
        everywhere(COUNTER, p=(0.5, 0.2), arms=SHORT),
        everywhere(COIN, p=(0.5, 0.2), arms={0.1: 0.2, 0.01: 0.8}),
    ),
    "little": (
        pair(BLIND, INFORMED, HIGH, LOW) + everywhere(COUNTER, LOW, p=(0.5, 0.5)),
        pair(BLIND, INFORMED, LOW, LOW) + everywhere(COUNTER, HIGH, p=(0.5, 0.5)),
        everywhere(COUNTER, HIGH, p=(0.5, 0.5)),  # nothing explores little
    ),
    "symmetric": (
        everywhere(START_G, p=(0.5, 0.45)),
        everywhere(START_G, p=(0.5, 0.2)),
        everywhere(BLIND, p=(0.5, 0.5)),
    ),
    "uneven": (
        everywhere(INFORMED, modes=UNEVEN) + everywhere(BLIND, modes=EVEN),
        everywhere(INFORMED, modes=EVEN) + everywhere(BLIND, modes=EVEN),
        # It explores far more: not the same amount.
        everywhere(INFORMED, modes="G" + "XXXXXXXXXG" * 5) + everywhere(BLIND, modes=EVEN),
    ),
    "start-bandit": (
        everywhere(START_G, arms=LONG) + everywhere(START_X, arms=SHORT),
        everywhere(START_G, arms=SHORT) + everywhere(START_X, arms=LONG),
        everywhere(START_G, arms=LONG),
    ),
    "coin-diversity": (
        everywhere(COIN, p=(0.3, 0.3), wobble=0.2) + everywhere(COUNTER, p=(0.3, 0.3)),
        everywhere(COIN, p=(0.3, 0.3)) + everywhere(COUNTER, p=(0.3, 0.3), wobble=0.2),
        everywhere(COIN, p=(0.3, 0.3), wobble=0.2),
    ),
    "homeostasis": (
        everywhere(INFORMED, ratio=1.09),
        everywhere(INFORMED, ratio=1.11),
        everywhere("XU-intra(10,informed,0.0001,G)"),  # 18 switches
    ),
}


def test_every_claim_has_its_cases():
    assert set(CASES) == set(BY_NAME)
    assert len(BY_NAME) == len(CLAIMS)


CONTRADICTED = {
    *("granularity-XI", "informed-scores", "coin-scores"),
    *("off-policy", "soft-similar", "mismatch"),
}


@pytest.mark.parametrize("case", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_claim_has_the_verdict_that_the_records_ask_for(tmp_path, name, case):
    records = make_records(tmp_path, *CASES[name][case])
    verdict = BY_NAME[name].judge(records)
    failed = "contradicted" if name in CONTRADICTED else "not supported"
    assert verdict.state == ("supported", failed, "cannot tell")[case], verdict
    assert verdict.sentence.endswith(".")


@pytest.mark.parametrize("name", CASES)
def test_runs_that_are_not_finished_support_nothing(tmp_path, name):
    fakes = [fake._replace(finished=False) for fake in CASES[name][0]]
    assert BY_NAME[name].judge(make_records(tmp_path, *fakes)).state == "cannot tell"


def test_unequal_budgets_and_settings_are_not_compared(tmp_path):
    claim = BY_NAME["informed-scores"]
    fakes = CASES["informed-scores"][0]
    longer = [fake._replace(frames=2_000) for fake in fakes[:2]]
    assert claim.judge(make_records(tmp_path / "a", *longer, *fakes[2:])).state == STATES[3]
    other = [fake._replace(settings={"replay.ratio": 2}) for fake in fakes[:2]]
    assert claim.judge(make_records(tmp_path / "b", *other, *fakes[2:])).state == STATES[3]
    both = [fake._replace(settings={"replay.ratio": 2}) for fake in fakes]
    assert claim.judge(make_records(tmp_path / "c", *both)).state == STATES[0]


def test_one_game_is_named_and_is_not_an_aggregate(tmp_path):
    records = make_records(tmp_path, *CASES["coin-scores"][0][::2])
    verdict = BY_NAME["coin-scores"].judge(records)
    assert verdict.state == "cannot tell"
    assert verdict.sentence.startswith("Only a has")


def test_variants_whose_better_start_differs_are_named(tmp_path):
    """With XU starting with explore is better everywhere, with XI nowhere."""
    fakes = pair(START_X, START_G) + pair(
        *(name.replace("XU", "XI") for name in (START_G, START_X))
    )
    verdict = BY_NAME["starting-mode"].judge(make_records(tmp_path, *fakes))
    assert verdict.state == "not supported"
    assert verdict.sentence == (
        "Starting with explore is clearly better on a and b and clearly worse on no game "
        f"({START_X}); clearly better on no game and clearly worse on a and b "
        f"({START_X.replace('XU', 'XI')})."
    )


def test_the_sentence_says_when_the_data_point_the_other_way(tmp_path):
    records = make_records(tmp_path, *CASES["coin-scores"][1])
    verdict = BY_NAME["coin-scores"].judge(records)
    assert "clearly worse than by a counter" in verdict.sentence
    assert "On a and b" in verdict.sentence
    assert "0.00 (95% interval 0.00 to 0.00)" in verdict.sentence


@pytest.mark.parametrize("name", ["granularity-XU", "coin-scores"])
def test_a_lead_within_the_interval_of_few_seeds_cannot_tell(tmp_path, name):
    ahead, behind = (2.0, 5.0, 6.0), (1.0, 3.0, 5.5)  # 6 of 9 pairs: 0.67
    fakes = [
        fake._replace(scores=ahead if fake.scores == HIGH else behind)
        for fake in CASES[name][0]
    ]
    verdict = BY_NAME[name].judge(make_records(tmp_path, *fakes))
    assert verdict.state == "cannot tell"
    assert verdict.numbers[0][1].startswith("0.67 (95% interval 0.")
    assert "2 comparisons of 3 seeds" in verdict.sentence
    assert "from 0.5 takes 30 seeds of each variant" in verdict.sentence


@pytest.mark.parametrize("name", ["adaptation", "counting-bandit"])
def test_runs_of_which_no_episode_ended_in_a_tenth_cannot_tell(tmp_path, name, monkeypatch):
    """Their p_X is not known: it did not stay where it was."""
    rows = fakes.episode_rows

    def in_the_middle(fake):
        return [one for one in rows(fake) if 0.1 < one["frames"] / fake.frames <= 0.9]

    monkeypatch.setattr(fakes, "episode_rows", in_the_middle)
    records = make_records(tmp_path, *CASES[name][0])
    assert records.runs["late_p_X"].is_null().all() and records.runs["episodes"].min() > 0
    assert BY_NAME[name].judge(records).state == "cannot tell"


def test_a_variant_without_episodes_at_the_end_hides_no_other(tmp_path, monkeypatch):
    rows = fakes.episode_rows

    def early(fake):
        return rows(fake)[: 10 if fake.variant == COIN else None]

    monkeypatch.setattr(fakes, "episode_rows", early)
    records = make_records(tmp_path, *everywhere(COIN), *CASES["little"][0])
    assert BY_NAME["little"].judge(records).state == "supported"


def test_the_sentence_about_adaptation_names_the_bandit_too(tmp_path):
    verdict = BY_NAME["adaptation"].judge(make_records(tmp_path, *CASES["adaptation"][1]))
    assert verdict.sentence.startswith("A bandit and p_X moved with every seed in 0 of 2")
    assert verdict.numbers[0][1] == "p_X -0.284, bandit moved 0.00"


def test_no_runs_at_all(tmp_path):
    judged = judge_all(make_records(tmp_path))
    assert {verdict.state for _, verdict in judged} == {"cannot tell"}


CARTPOLE, EMPTY = "classic:cartpole", "minigrid:empty_6x6"


def on_known_games(name, learned):
    """The case that supports a claim, on games whose random play is known."""
    games = dict(zip(GAMES, (CARTPOLE, EMPTY), strict=True))
    for fake in CASES[name][0]:
        scale = (30.0 if fake.game == "a" else 0.09) if learned else 0.0
        scores = tuple(scale * score for score in fake.scores)
        yield fake._replace(game=games[fake.game], scores=scores)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"off-policy", "soft-similar"}))
def test_no_claim_rests_on_agents_that_learned_nothing(tmp_path, name):
    nothing = make_records(tmp_path / "a", *on_known_games(name, learned=False))
    assert not nothing.runs["learned"].any()
    assert BY_NAME[name].judge(nothing).state == "cannot tell"


def test_a_win_over_an_agent_that_learned_nothing_is_a_win(tmp_path):
    fakes = on_known_games("coin-scores", learned=True)
    records = make_records(tmp_path, *fakes)
    assert records.runs.filter(variant=COIN)["learned"].all()
    assert BY_NAME["coin-scores"].judge(records).state == "supported"


def test_a_name_that_nobody_knows_does_not_disturb(tmp_path):
    fakes = [*CASES["coin-scores"][0], *everywhere("XQ-of-the-future")]
    assert BY_NAME["coin-scores"].judge(make_records(tmp_path, *fakes)).state == STATES[0]


@pytest.mark.parametrize(
    "partner, first, second",
    [
        (blind_partner, "XU-intra(10,informed,0.01,G)", "XU-intra(10,blind,100,G)"),
        (blind_partner, "XU-intra(10,informed,p*,G)", None),
        (blind_partner, "XU-intra(10,informed:variance,0.01,G)", None),
        (counting_partner, "XI-intra(10,blind,p*,X)", "XI-intra(10,blind,n*,X)"),
        (counting_partner, "XI-intra(10,blind,0.001,X)", "XI-intra(10,blind,1000,X)"),
        (counting_partner, "XU-step-level-0.01", None),
        (greedy_start_partner, "XU-intra(=,blind,n*,X)", "XU-intra(=,blind,n*,G)"),
        (greedy_start_partner, "XU-intra(=,blind,n*,G)", None),
        (greedy_start_partner, "XU-intra(10,informed,p*,X)", None),
    ],
)
def test_partners(partner, first, second):
    assert partner(parse(first)) == (parse(second) if second else None)


def test_settings_are_named_where_runs_of_a_game_differ(tmp_path):
    fakes = [
        Fake(COIN, "a", settings={"replay.x": 1}),
        Fake(COIN, "b", (1.0, 2.0, 3.0, 4.0), settings={"replay.x": 2}),
        Fake(COIN, "b", settings={"replay.x": 2, "learning.watkins": True}),
    ]
    cells = judged_cells(make_records(tmp_path, *fakes).runs)
    assert [cell.label for cell in cells] == [COIN, COIN, f"{COIN} [learning.watkins=true]"]
    assert not match(cells, counting_partner)


@pytest.mark.parametrize(
    "hits, trials, chance, answer",
    [
        (0, 5, 0.3, 1.0),
        (2, 2, 0.5, 0.25),
        (1, 3, 0.1, 0.271),
        (1_000, 2_000, 0.5, 0.5 + 0.5 * 0.017839),  # half of the middle term above one half
    ],
)
def test_binomial_tail(hits, trials, chance, answer):
    assert binomial_tail(hits, trials, chance) == pytest.approx(answer, rel=1e-4)


def test_equal_bandits_have_moved_equally_far(tmp_path):
    """To the last bit: numbers are added in one order, whichever thread comes first."""
    arms = dict(zip(LONG, (0.1, 0.2, 0.3, 0.4), strict=True))
    fake = Fake(START_G, arms=arms, scores=tuple(map(float, range(100))))
    assert make_records(tmp_path, fake).runs["shifted"].n_unique() == 1


def test_what_bandits_prefer_by_hand(tmp_path):
    fake = Fake(START_G, arms=LONG, settings={"replay.x": 1})
    runs = make_records(tmp_path, fake).runs
    preferred = 0.05 * 1 + 0.05 * 2 + 0.2 * 3 + 0.7 * 4
    assert runs["preferred"].to_list() == pytest.approx([preferred] * 3)
    assert runs["even"].to_list() == pytest.approx([2.5] * 3)
    assert runs["shifted"].to_list() == pytest.approx([0.45] * 3)
    rates = {1 / steps: probability for steps, probability in LONG.items()}
    coin = make_records(tmp_path, Fake(START_G.replace("n*", "p*"), arms=rates)).runs
    for column in ("preferred", "even"):
        assert coin[column].to_list() == pytest.approx(runs[column].to_list())
    (cell,) = judged_cells(runs, "bandits")
    assert cell.label == START_G, "a setting that all runs share is not part of a name"
    assert cell.column("score").tolist() == [1.0, 2.0, 3.0]
