"""Names of variants: `sidequest.parse` and `str`, both ways."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidequest.switching.variants import (
    PAPER_ARMS,
    TRIGGERS,
    Amount,
    ArmSets,
    Variant,
    VariantError,
    parse,
)

# Every number of the grammar, with the ways in which it may be typed.


def steps():
    return st.integers(1, 10_000_000).map(lambda n: (Amount("steps", float(n)), str(n)))


def share():
    numbers = st.floats(1e-6, 100.0)
    return numbers.map(lambda x: (Amount("share", x), repr(x) + "%"))


def rate():
    numbers = st.floats(1e-9, 1.0)
    return numbers.map(lambda x: (Amount("rate", x), repr(x)))


def literally(text, amount):
    return st.just((amount, text))


def token_lists(draw, variant_mode):
    """The tokens of one variant after its mode, and the variant they name."""
    level = draw(st.sampled_from(["experiment", "episode", "step", "intra"]))
    if level == "experiment":
        start = draw(st.sampled_from("GX"))
        return ["-", "level", "-", start], Variant(variant_mode, level, start=start)
    if level == "episode":
        start, text = draw(rate() | literally("*", Amount("rate")))
        return ["-", "level", "-", text], Variant(variant_mode, level, start=start)
    if level == "step":
        exploit, text = draw(rate())
        variant = Variant(variant_mode, level, trigger="blind", exploit=exploit)
        return ["-", "level", "-", text], variant
    explore, n_x = draw(
        steps() | share() | literally("*", Amount("steps")) | literally("=", Amount("same"))
    )
    trigger = draw(st.sampled_from(list(TRIGGERS)))
    amounts = rate() | literally("p*", Amount("rate"))
    if trigger == "blind":
        amounts = amounts | steps() | share() | literally("n*", Amount("steps"))
    exploit, n_g = draw(amounts)
    start = draw(st.sampled_from("GX"))
    variant = Variant(variant_mode, level, explore, trigger, exploit, start)
    trigger_tokens = trigger.replace(":", " : ").split()
    return ["(", n_x, ",", *trigger_tokens, ",", n_g, ",", start, ")"], variant


@st.composite
def typed_variants(draw):
    """A text that a person might type, and the variant that it names."""
    mode, variant_mode = draw(
        st.sampled_from(
            [("XU", "XU"), ("XI", "XI"), ("XS", "XS"), ("Xγ", "Xγ"), ("XD", "Xγ")]
        )
    )
    rest, variant = token_lists(draw, variant_mode)
    tokens = [mode, "-", variant.granularity, *rest]
    spaces = st.sampled_from(["", "", "", " ", "  ", "\t", "\n", "\N{NO-BREAK SPACE}"])
    gaps = draw(st.lists(spaces, min_size=len(tokens) + 1, max_size=len(tokens) + 1))
    text = gaps[0] + "".join(t + gap for t, gap in zip(tokens, gaps[1:], strict=True))
    upper = draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    letters = zip(text, upper, strict=True)
    return "".join(c.upper() if up else c.lower() for c, up in letters), variant


@settings(max_examples=150)
@given(typed_variants())
def test_every_variant_survives_being_written_and_read_again(typed):
    text, variant = typed
    assert parse(text) == variant
    assert parse(str(variant)) == variant
    assert str(parse(str(variant))) == str(variant)


@pytest.mark.parametrize(
    "typed, name",
    [
        ("xu-EXPERIMENT-level-x", "XU-experiment-level-X"),
        ("XI - experiment - level - g", "XI-experiment-level-G"),
        ("XS-episode-level-*", "XS-episode-level-*"),
        ("XU-episode-level-.30", "XU-episode-level-0.3"),
        ("XU-step-level-1e-2", "XU-step-level-0.01"),
        ("XU-step-level-1.", "XU-step-level-1.0"),
        ("XD-intra(10,blind,100,G)", "Xγ-intra(10,blind,100,G)"),
        ("xΓ-intra(010,BLIND,n*,g)", "Xγ-intra(10,blind,n*,G)"),
        (" xi-Intra( * , Informed , P* , x ) ", "XI-intra(*,informed,p*,X)"),
        ("XU-intra(=,informed : mismatch,0.1,G)", "XU-intra(=,informed:mismatch,0.1,G)"),
        ("XU-intra(5.0 %,blind,2.50%,G)", "XU-intra(5%,blind,2.5%,G)"),
        (
            "XU-intra(10,informed:variance,1E-4,X)",
            "XU-intra(10,informed:variance,0.0001,X)",
        ),
    ],
)
def test_canonical_names(typed, name):
    assert str(parse(typed)) == name


def test_a_variant_parses_to_itself():
    variant = parse("XU-intra(10,informed,p*,X)")
    assert parse(variant) is variant


# Faults. The caret stands under the first character that cannot be.

FAULTS = [
    # text, with the caret's column drawn below it, and a word of what is allowed there
    ("", "^", "explore mode"),
    ("   ", "   ^", "explore mode"),
    ("YU-experiment-level-X", "^", "XU, XI, XS or Xγ"),
    ("XU", "  ^", "hyphen"),
    ("XU_intra(1,blind,1,G)", "  ^", "hyphen"),
    ("XU-extra(1,blind,1,G)", "   ^", "intra(…)"),
    ("XU-experiment-X", "              ^", "experiment-level-…"),
    ("XU-experiment-level-Y", "                    ^", "G or X"),
    ("XU-experiment-level-*", "                    ^", "G or X"),
    ("XU-episode-level-", "                 ^", "probability"),
    ("XU-episode-level-1", "                 ^", "probability"),
    ("XU-episode-level-1.5", "                 ^", "up to 1.0"),
    ("XU-episode-level-=", "                 ^", "probability"),
    ("XU-step-level-*", "              ^", "probability"),
    ("XU-step-level-0.0", "              ^", "above 0"),
    ("XU-step-level-nan", "              ^", "probability"),
    ("XU-step-level--0.1", "              ^", "probability"),
    ("XU-step-level-0.01 too", "                   ^", "nothing more"),
    ("XU-intra 10,blind,100,G)", "         ^", "opening bracket"),
    ("XU-intra(0,blind,100,G)", "         ^", "1 to 10000000 steps"),
    ("XU-intra(10000001,blind,100,G)", "         ^", "1 to 10000000 steps"),
    ("XU-intra(0.5,blind,100,G)", "         ^", "n_X"),
    ("XU-intra(p*,blind,100,G)", "         ^", "n_X"),
    ("XU-intra(n*,blind,100,G)", "         ^", "n_X"),
    ("XU-intra(0%,blind,100,G)", "         ^", "above 0%"),
    ("XU-intra(101%,blind,100,G)", "         ^", "up to 100%"),
    ("XU-intra(10 blind,100,G)", "            ^", "comma"),
    ("XU-intra(10,blond,100,G)", "            ^", "blind, informed"),
    ("XU-intra(10,*,100,G)", "            ^", "blind, informed"),
    ("XU-intra(10,informed:value,0.1,G)", "                     ^", "informed:mismatch"),
    ("XU-intra(10,blind:mismatch,9,G)", "                 ^", "comma"),
    ("XU-intra(10,informed,100,X)", "                     ^", "target rate"),
    ("XU-intra(10,informed,5%,X)", "                     ^", "target rate"),
    ("XU-intra(10,informed,n*,X)", "                     ^", "target rate"),
    ("XU-intra(10,informed,*,X)", "                     ^", "target rate"),
    ("XU-intra(10,informed,=,X)", "                     ^", "target rate"),
    ("XU-intra(10,informed,1.01,X)", "                     ^", "up to 1.0"),
    ("XU-intra(10,blind,*,X)", "                  ^", "n* or p*"),
    ("XU-intra(10,blind,=,X)", "                  ^", "n* or p*"),
    ("XU-intra(10,blind,0,X)", "                  ^", "1 to 10000000 steps"),
    ("XU-intra(10,blind,2.0,X)", "                  ^", "up to 1.0"),
    ("XU-intra(10,blind,-1,X)", "                  ^", "n_G"),
    ("XU-intra(10,blind,100)", "                     ^", "starting mode"),
    ("XU-intra(10,blind,100,)", "                      ^", "starting mode"),
    ("XU-intra(10,blind,100,*)", "                      ^", "starting mode"),
    ("XU-intra(10,blind,100,G", "                       ^", "closing bracket"),
    ("XU-intra(10,blind,100,G))", "                        ^", "nothing more"),
    ("XU-intra(1" + "0" * 30 + ",blind,9,G)", "         ^", "n_X"),
]


def read(error: VariantError) -> tuple[str, str, str, str]:
    """The parts of the message: text, caret's line, what is allowed, a valid name."""
    headline, text, caret, allowed, valid = str(error).split("\n")
    assert headline == "no variant has this name:"
    assert text.startswith("    ") and caret.startswith("    ")
    return (
        text[4:],
        caret[4:],
        allowed.removeprefix("Allowed here: "),
        valid.removeprefix("A valid name: "),
    )


@pytest.mark.parametrize("text, caret, allowed", FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_is_pointed_at(text, caret, allowed):
    with pytest.raises(VariantError) as caught:
        parse(text)
    shown, shown_caret, shown_allowed, valid = read(caught.value)
    assert shown == text
    assert shown_caret == caret
    assert allowed in shown_allowed
    assert str(parse(valid)) == valid


@pytest.mark.parametrize(
    "typed, valid",
    [
        ("step-level-0.01", "XU-step-level-0.01"),  # as the paper prints it
        ("XU-step-0.01", "XU-step-level-0.01"),
        ("X_I-intra(10,blind,100,G)", "XU-intra(10,blind,100,G)"),
        ("XI–intra(10,blind,100,G)", "XI-intra(10,blind,100,G)"),
        ("XU-intra(10,blind,100)", "XU-intra(10,blind,100,G)"),
        ("XU-intra(10,blind,100,G", "XU-intra(10,blind,100,G)"),
        ("XU-intra(10,blind,100,greedy)", "XU-intra(10,blind,100,G)"),
        ("XU-intra(*,p*,X)", "XU-intra(*,informed,p*,X)"),
        ("XI-intra(=,informd,0.1,X)", "XI-intra(=,informed,0.1,X)"),
        ("XI-intra(10,informed:variance,7,G)", "XI-intra(10,informed:variance,0.01,G)"),
        ("nonsense", "XU-intra(10,informed,p*,X)"),
    ],
)
def test_the_valid_name_is_the_typed_one_repaired(typed, valid):
    with pytest.raises(VariantError) as caught:
        parse(typed)
    assert read(caught.value)[3] == valid


def test_the_caret_stands_right_below_wide_and_invisible_letters():
    with pytest.raises(VariantError) as caught:
        parse("XU-intra(10,\n\u202fblind,日本,G)")
    shown, caret, _, _ = read(caught.value)
    assert shown == "XU-intra(10,··blind,日本,G)"
    assert caret == "                    ^"
    with pytest.raises(VariantError) as caught:
        parse("日")
    assert read(caught.value)[1] == "^"


def test_a_variant_error_is_a_value_error():
    with pytest.raises(ValueError):
        parse("nonsense")


# Whatever is typed, it parses or it raises VariantError.


@st.composite
def mutated(draw):
    """A valid name with a few letters removed, doubled, replaced or swapped."""
    letters = list(draw(typed_variants())[0])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(letters) - 1, 0)))
        kind = draw(st.sampled_from(["drop", "put", "double"]))
        if kind == "put" or not letters:
            letters.insert(place, draw(st.sampled_from("XGUIγ-(),:%*=npe.0123456789 ²٣İ∞")))
        elif kind == "drop":
            del letters[place]
        else:
            letters.insert(place, letters[place])
    return "".join(letters)


@settings(max_examples=250)
@given(st.text(max_size=40) | mutated())
@example("XU-step-level-1e400")
@example("XU-step-level-1e-400")
@example("XU-intra(1e9,blind,1e999,G)")
@example("XU-intra(٣,blind,²,G)")
@example("\x00\ud800")
def test_random_text_parses_or_raises_variant_error(text):
    try:
        variant = parse(text)
    except VariantError as error:
        _, caret, allowed, valid = read(error)
        assert caret.strip() == "^"
        assert allowed
        parse(valid)
    else:
        assert parse(str(variant)) == variant


# What a variant needs.


@pytest.mark.parametrize(
    "name, heads, signals, bandits",
    [
        ("XU-experiment-level-X", ["extrinsic"], [], {}),
        ("XU-step-level-0.01", ["extrinsic"], [], {}),
        ("XI-episode-level-*", ["extrinsic", "intrinsic"], [], {"start": (0.0, 1.0)}),
        ("XS-episode-level-0.3", ["extrinsic"], [], {}),
        ("Xγ-intra(10,blind,100,G)", ["extrinsic", "short"], [], {}),
        (
            "XU-intra(*,blind,n*,G)",
            ["extrinsic"],
            [],
            {"explore": (1, 10, 100), "exploit": (10, 100, 1_000, 10_000)},
        ),
        (
            "XU-intra(10,informed,p*,X)",
            ["extrinsic"],
            ["reward", "discount", "value"],
            {"exploit": (0.1, 0.01, 0.001, 0.0001)},
        ),
        (
            "XI-intra(=,informed:mismatch,p*,G)",
            ["extrinsic", "intrinsic", "twin"],
            ["action_mismatch"],
            {"exploit": (0.1, 0.01, 0.001, 0.0001)},
        ),
        (
            "XU-intra(*,informed:variance,0.01,G)",
            ["extrinsic", "twin"],
            ["value_variance"],
            {"explore": (1, 10, 100)},
        ),
    ],
)
def test_heads_signals_and_bandits(name, heads, signals, bandits):
    variant = parse(name)
    assert list(variant.heads) == heads
    assert list(variant.signals) == signals
    assert variant.bandits() == bandits


def test_arm_sets_can_be_your_own():
    arms = ArmSets(explore_steps=(2, 4), exploit_steps=(8,), rates=(0.5,))
    assert parse("XU-intra(*,blind,n*,G)").bandits(arms) == {
        "explore": (2, 4),
        "exploit": (8,),
    }
    assert parse("XU-intra(*,blind,p*,G)").bandits(arms)["exploit"] == (0.5,)
    assert PAPER_ARMS.rates == (0.1, 0.01, 0.001, 0.0001)


def test_as_dict_has_the_promised_keys():
    assert parse("xu-intra(*,informed,p*,x)").as_dict() == {
        "name": "XU-intra(*,informed,p*,X)",
        "mode": "XU",
        "granularity": "intra",
        "explore": "*",
        "trigger": "informed",
        "exploit": "p*",
        "start": "X",
        "heads": ["extrinsic"],
        "signals": ["reward", "discount", "value"],
        "bandits": [
            {"name": "explore", "arms": [1, 10, 100]},
            {"name": "exploit", "arms": [0.1, 0.01, 0.001, 0.0001]},
        ],
    }


def test_a_step_level_variant_has_no_starting_mode():
    assert parse("XU-step-level-0.5").as_dict()["start"] is None


@settings(max_examples=50)
@given(typed_variants())
def test_as_dict_is_the_same_structure_for_every_variant(typed):
    _, variant = typed
    described = variant.as_dict()
    assert list(described) == [
        *("name", "mode", "granularity", "explore", "trigger"),
        *("exploit", "start", "heads", "signals", "bandits"),
    ]
    assert parse(described["name"]) == variant
    assert {b["name"]: tuple(b["arms"]) for b in described["bandits"]} == variant.bandits()
