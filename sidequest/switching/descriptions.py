"""Variants in plain English, and the variants that the paper speaks of.

This file needs no JAX: asking what a variant does costs nothing.
"""

from collections.abc import Sequence

from sidequest.switching.variants import PAPER_ARMS, Amount, ArmSets, Variant

PAPER_VARIANTS = {
    "Baselines (section 3, figures 3 and 10)": (
        "XU-experiment-level-X",
        "XU-experiment-level-G",
        "XU-step-level-0.01",
        "XU-episode-level-*",
        "XI-experiment-level-X",
        "XI-experiment-level-G",
        "XI-step-level-0.01",
        "XI-episode-level-*",
    ),
    "The headline (figures 3 and 10)": (
        "XU-intra(10,informed,p*,X)",
        "XI-intra(10,informed,p*,X)",
    ),
    "The example of section 3.1": ("XU-intra(100,informed,p*,X)",),
    "How much and in what portions: adaptive and symmetric (figure 4)": (
        "XU-intra(*,blind,n*,G)",
        "XU-intra(*,informed,p*,G)",
        "XU-intra(=,informed,p*,G)",
        "XI-intra(*,blind,n*,G)",
        "XI-intra(*,informed,p*,G)",
        "XI-intra(=,informed,p*,G)",
    ),
    "Blind against informed moments (figures 5 and 12)": (
        "XU-intra(10,blind,100,G)",
        "XU-intra(10,informed,0.01,G)",
        "XU-intra(10,blind,1000,G)",
        "XU-intra(10,informed,0.001,G)",
    ),
    "Starting mode (figures 6 and 14)": (
        "XU-intra(=,blind,n*,G)",
        "XU-intra(=,blind,n*,X)",
        "XI-intra(=,blind,n*,G)",
        "XI-intra(=,blind,n*,X)",
    ),
    "Counting steps against tossing a coin (figures 7 and 13)": (
        "XI-intra(10,blind,n*,G)",
        "XI-intra(10,blind,p*,G)",
    ),
    "Other informed triggers (appendix B, figure 8)": (
        "XI-intra(10,informed:mismatch,p*,X)",
        "XI-intra(10,informed:variance,p*,X)",
    ),
    "Other explore modes (appendix B, figure 16)": (
        "XS-step-level-0.01",
        "XS-episode-level-*",
        "XS-intra(10,informed,p*,X)",
        "Xγ-intra(10,informed,p*,X)",
    ),
}
"""By the place in the paper. Where its text leaves a choice open, the name has the
paper's default: a start in exploit mode, and 10 explore steps."""

MODES = {
    "XU": "uniformly random actions",
    "XI": "the greedy actions of a head that learns an intrinsic reward, for novelty",
    "XS": "epsilon-greedy actions with epsilon 0.4 (exploiting has epsilon 0.1)",
    "Xγ": "the greedy actions of a head with a shorter discount, 0.97",
}

HEADS = {
    "extrinsic": "Q-values of the game's own reward",
    "intrinsic": "Q-values of the intrinsic reward",
    "short": "Q-values of the game's reward at the short discount",
    "twin": "a second extrinsic head that started from other weights",
}

SIGNALS = {
    "reward": "what arrived with the observation",
    "discount": "the agent's discount, 0 where the episode terminated",
    "value": "V(s), the greatest Q-value of the exploit mode",
    "action_mismatch": "how little the best actions of the two heads overlap",
    "value_variance": "how far the Q-values of the two heads lie apart",
}

UNCERTAINTIES = {
    "informed": "the value promise discrepancy (what was promised a few steps ago,"
    " less what came)",
    "informed:mismatch": "the action mismatch between two heads",
    "informed:variance": "the variance of the Q-values between two heads",
}

BANDITS = {
    "start": "whether the episode explores: 0 no, 1 yes",
    "explore": "steps of an explore period",
    "exploit": "what ends an exploit period",
}


def describe(variant: Variant, arms: ArmSets = PAPER_ARMS) -> list[str]:
    """What the variant does, one sentence for each of the choices in its name."""
    sentences = [f"Exploring means {MODES[variant.mode]}; else the agent exploits."]
    match variant.granularity:
        case "experiment":
            verb = "explores" if variant.start == "X" else "exploits"
            sentences.append(f"It never switches: every step {verb}.")
        case "step":
            sentences.append(
                f"Each step for itself explores with probability {variant.exploit}, "
                "whatever the step before did."
            )
        case "episode":
            sentences.append("The mode is chosen for a whole episode at a time.")
            if not isinstance(variant.start, Amount) or not variant.start.adaptive:
                sentences.append(f"An episode explores with probability {variant.start}.")
        case "intra":
            sentences += [
                "The mode switches inside episodes: periods of exploiting and of"
                " exploring take turns.",
                _exploit_sentence(variant),
                _explore_sentence(variant),
                f"Every episode starts in {_MODE_WORDS[str(variant.start)]} mode.",
            ]
    return sentences + _bandit_sentences(variant, arms)


_MODE_WORDS = {"G": "exploit", "X": "explore"}


def _exploit_sentence(variant: Variant) -> str:
    amount = variant.exploit
    assert amount is not None and variant.trigger is not None
    if variant.informed:
        rate = "a rate that a bandit chooses" if amount.adaptive else f"{amount} a step"
        return (
            f"An exploit period tends to end where {UNCERTAINTIES[variant.trigger]} is"
            f" high; homeostasis adapts the threshold so that this happens at {rate}."
        )
    if amount.unit == "rate":
        size = "that a bandit chooses" if amount.adaptive else str(amount)
        return f"An exploit period ends at each step with probability {size}."
    return f"An exploit period ends after {_duration(amount)}."


def _explore_sentence(variant: Variant) -> str:
    amount = variant.explore
    assert amount is not None
    if amount.unit == "same":
        return "An explore period ends in the same way: switching is symmetric."
    return f"An explore period lasts {_duration(amount)}."


def _duration(amount: Amount) -> str:
    if amount.adaptive:
        return "a number of steps that a bandit chooses"
    if amount.unit == "share":
        return f"{amount} of an episode's usual length"
    return "1 step" if amount.value == 1 else f"{amount} steps"


def _bandit_sentences(variant: Variant, arms: ArmSets) -> list[str]:
    return [
        f"At the start of each episode a bandit that maximises the return chooses "
        f"{_adapted(variant, name)} from {listed(values)}."
        for name, values in variant.bandits(arms).items()
    ]


def _adapted(variant: Variant, name: str) -> str:
    """What the bandit of this name sets, in the words of the other sentences."""
    if name == "start":
        return "its mode, exploit (0) or explore (1),"
    if name == "explore":
        return "the length of explore periods"
    if variant.informed:
        return "the target rate"
    assert variant.exploit is not None
    counted = variant.exploit.unit == "steps"
    return "the length of exploit periods" if counted else "the probability"


def listed(values: Sequence[float]) -> str:
    """Numbers as a person writes them: `1, 10, 100`."""
    return ", ".join(f"{value:g}" for value in values)


def summarise(variant: Variant) -> str:
    """The variant in one short line, for lists."""
    match variant.granularity:
        case "experiment":
            return "always explores" if variant.start == "X" else "always exploits"
        case "step":
            return f"each step explores with probability {variant.exploit}"
        case "episode":
            adaptive = isinstance(variant.start, Amount) and variant.start.adaptive
            how = "as a bandit chooses" if adaptive else f"with probability {variant.start}"
            return f"whole episodes explore, {how}"
    assert variant.explore is not None and variant.exploit is not None
    adaptive, amount = variant.exploit.adaptive, variant.exploit
    if variant.informed:
        kind = (variant.trigger or "").partition(":")[2] or "value promise"
        when = f"on {kind}, " + ("at an adaptive rate" if adaptive else f"at rate {amount}")
    elif amount.unit == "rate":
        when = "at random, " + ("at an adaptive rate" if adaptive else f"at rate {amount}")
    else:
        steps = "an adaptive number of" if adaptive else str(amount)
        when = f"after {steps} exploit steps"
    length = {"same": "symmetric"}.get(variant.explore.unit)
    if length is None:
        number = "adaptive" if variant.explore.adaptive else str(variant.explore)
        length = f"{number} steps"
    return f"explores {when} ({length}); starts with {variant.start}"
