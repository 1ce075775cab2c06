"""Which variants are compared with which."""

from sidequest.figures.pairs import (
    Pair,
    blind_and_informed,
    counter_and_coin,
    modes_in,
    representatives,
    start_pairs,
)
from tests.figures.made_up import SETTINGS, VARIANTS


def test_the_papers_variants_stand_for_the_granularities():
    assert representatives(VARIANTS, "XU") == {
        "experiment-level X": "XU-experiment-level-X",
        "experiment-level G": "XU-experiment-level-G",
        "step-level": "XU-step-level-0.01",
        "episode-level": "XU-episode-level-*",
        "intra-episodic": "XU-intra(10,informed,p*,X)",
    }


def test_another_variant_stands_in_by_its_place_and_not_by_its_score():
    names = ["XU-step-level-0.1", "XU-intra(5,blind,50,G)", "XU-intra(10,blind,100,G)"]
    assert representatives(names, "XU") == {
        "step-level": "XU-step-level-0.1",
        "intra-episodic": "XU-intra(5,blind,50,G)",
    }
    assert representatives(names, "XI") == {}


def test_modes_come_in_the_papers_order_and_unreadable_names_do_not_count():
    assert modes_in(["XS-step-level-0.1", "XU-step-level-0.1", "who knows"]) == ["XU", "XS"]


def test_blind_and_informed_share_everything_but_the_trigger():
    names = [
        "XU-intra(10,blind,n*,X)",
        "XU-intra(10,informed,p*,X)",
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,informed,0.01,G)",
        "XU-intra(10,informed,0.001,G)",  # another rate
        "XU-intra(1,informed,0.01,G)",  # another n_X
        "XI-intra(10,informed,0.01,G)",  # another mode
        "XU-intra(10,informed:variance,0.01,G)",  # another signal
    ]
    assert blind_and_informed(names) == [
        Pair("XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"),
        Pair("XU-intra(10,blind,n*,X)", "XU-intra(10,informed,p*,X)"),
    ]


def test_counts_and_coins_of_one_rate():
    names = [
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,blind,0.01,G)",
        "XU-intra(10,blind,0.1,G)",
        "XU-intra(10,blind,n*,X)",
        "XU-intra(10,blind,p*,X)",
    ]
    assert counter_and_coin(names) == [
        Pair("XU-intra(10,blind,n*,X)", "XU-intra(10,blind,p*,X)"),
        Pair("XU-intra(10,blind,100,G)", "XU-intra(10,blind,0.01,G)"),
    ]


def test_the_papers_starting_pair_comes_first():
    names = [f"XU-{setting}" for setting in SETTINGS] + ["XU-intra(10,blind,100,X)"]
    assert start_pairs(names) == [
        Pair("XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"),
        Pair("XU-intra(10,blind,100,G)", "XU-intra(10,blind,100,X)"),
    ]
