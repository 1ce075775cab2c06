"""Variants in plain English, and the variants of the paper. This file needs no JAX."""

from collections.abc import Sequence

from sidequest.switching.variants import (
    MODES,
    PAPER_ARMS,
    TRIGGERS,
    Amount,
    ArmSets,
    Variant,
)


def _each(modes: str, *granularities: str) -> tuple[str, ...]:
    """Returns the names of all these explore modes at all these granularities."""
    return tuple(f"{mode}-{rest}" for mode in modes.split() for rest in granularities)


PAPER_VARIANTS = {
    "Baselines (section 3, figures 3 and 10)": _each(
        "XU XI",
        *("experiment-level-X", "experiment-level-G", "step-level-0.01", "episode-level-*"),
    ),
    "The headline (figures 3 and 10)": _each("XU XI", "intra(10,informed,p*,X)"),
    "The example of section 3.1": ("XU-intra(100,informed,p*,X)",),
    "How much and in what portions: adaptive and symmetric (figure 4)": _each(
        "XU XI", "intra(*,blind,n*,G)", "intra(*,informed,p*,G)", "intra(=,informed,p*,G)"
    ),
    "Blind against informed moments (figures 5 and 12)": _each(
        "XU",
        *("intra(10,blind,100,G)", "intra(10,informed,0.01,G)"),
        *("intra(10,blind,1000,G)", "intra(10,informed,0.001,G)"),
    ),
    "Starting mode (figures 6 and 14)": _each(
        "XU XI", "intra(=,blind,n*,G)", "intra(=,blind,n*,X)"
    ),
    "Counting steps against tossing a coin (figures 7 and 13)": _each(
        "XI", "intra(10,blind,n*,G)", "intra(10,blind,p*,G)"
    ),
    "Other informed triggers (appendix B, figure 8)": _each(
        "XI", "intra(10,informed:mismatch,p*,X)", "intra(10,informed:variance,p*,X)"
    ),
    "Other explore modes (appendix B, figure 16)": (
        *_each("XS", "step-level-0.01", "episode-level-*"),
        *_each("XS Xγ", "intra(10,informed,p*,X)"),
    ),
}
"""Variants by their place in the paper. Where its text leaves a choice open, the name has
the paper's default: a start in exploit mode, and 10 explore steps."""

HEADS = {
    "extrinsic": "Q-values of the game's own reward",
    "intrinsic": "Q-values of the intrinsic reward",
    "short": "Q-values of the game's reward at the short discount",
    "twin": "a second extrinsic head that started from other weights",
}

SIGNALS = {
    "reward": "what arrived with the observation",
    "discount": "the agent's discount, 0 where the episode terminated",
    "value": "V(s), the maximum Q-value of the exploit mode",
    "action_mismatch": "how little the best actions of the two heads overlap",
    "value_variance": "how far the Q-values of the two heads lie apart",
}

_STARTS = {"G": "exploit", "X": "explore"}


def describe(variant: Variant) -> list[str]:
    """Returns what the variant does, a sentence for each choice in its name."""
    sentences = [_mode_sentence(variant)]
    match variant.granularity:
        case "experiment":
            mode = _STARTS[str(variant.start)]
            sentences.append(f"It never switches: every step is in {mode} mode.")
        case "step":
            sentences.append(
                f"Each step explores with probability {variant.exploit}, "
                "whatever the step before did."
            )
        case "episode":
            sentences.append("The mode is chosen for a whole episode at a time.")
            if "start" not in variant.bandits():
                sentences.append(f"An episode explores with probability {variant.start}.")
        case "intra":
            sentences += [
                "The mode switches inside episodes: periods of exploiting and of "
                "exploring take turns.",
                _exploit_sentence(variant),
                _explore_sentence(variant),
                f"Every episode starts in {_STARTS[str(variant.start)]} mode.",
            ]
    return sentences + [
        "At the start of each episode a bandit that maximises the return chooses "
        f"{adapted(variant, name)} from {listed(values)}."
        for name, values in variant.bandits().items()
    ]


def _mode_sentence(variant: Variant) -> str:
    if _both_rewards(variant):
        return (
            f"Exploring means {MODES['XU'].words}; else the agent is greedy on the "
            "extrinsic and the intrinsic head together."
        )
    return f"Exploring means {MODES[variant.mode].words}; else the agent exploits."


def _both_rewards(variant: Variant) -> bool:
    """Returns whether it is the one variant that maximises both (caption of figure 3)."""
    return variant.mode == "XI" and variant.granularity == "step"


def _exploit_sentence(variant: Variant) -> str:
    size = _size(variant, "exploit")
    if variant.informed:
        uncertainty = TRIGGERS[str(variant.trigger)].words
        return (
            f"An exploit period tends to end where {uncertainty} is high; homeostasis "
            f"adapts the threshold so that this happens at a rate of {size}."
        )
    if variant.exploit is not None and variant.exploit.unit == "rate":
        return f"An exploit period ends at each step with a probability of {size}."
    return f"An exploit period ends after {size}."


def _explore_sentence(variant: Variant) -> str:
    if _symmetric(variant):
        rate = ", and the rate is that of both modes together" if variant.informed else ""
        return f"An explore period ends in the same way: switching is symmetric{rate}."
    return f"An explore period lasts {_size(variant, 'explore')}."


def _symmetric(variant: Variant) -> bool:
    return variant.explore is not None and variant.explore.unit == "same"


def _size(variant: Variant, name: str, arms: ArmSets = PAPER_ARMS) -> str:
    """Returns a duration or a rate in words; of a bandit, the range of its arms."""
    amount: Amount = getattr(variant, name)
    if amount.unit == "share":
        return f"{amount} of an episode's usual length"
    number = str(amount)
    if amount.adaptive:
        values = variant.bandits(arms)[name]
        number = f"{values[0]:g} to {values[-1]:g}"
    if amount.unit == "rate":
        return number
    return "1 step" if number == "1" else f"{number} steps"


def adapted(variant: Variant, name: str) -> str:
    """Returns what the bandit of this name sets, in the words of the other sentences."""
    if name == "start":
        return "its mode (0 exploit, 1 explore)"
    if name == "explore":
        return "the length of explore periods"
    if variant.informed:
        return "the target rate"
    counted = variant.exploit is not None and variant.exploit.unit == "steps"
    return "the length of exploit periods" if counted else "the probability"


def listed(values: Sequence[float]) -> str:
    """Returns numbers as text: `1, 10, 100`."""
    return ", ".join(f"{value:g}" for value in values)


def summarise(variant: Variant, arms: ArmSets = PAPER_ARMS) -> str:
    """Returns the variant in one short line, for lists."""
    match variant.granularity:
        case "experiment":
            return f"every step is in {_STARTS[str(variant.start)]} mode"
        case "step":
            extra = ", on both rewards" if _both_rewards(variant) else ""
            return f"each step explores with probability {variant.exploit}{extra}"
        case "episode":
            adaptive = "start" in variant.bandits()
            how = "as a bandit chooses" if adaptive else f"with probability {variant.start}"
            return f"whole episodes explore, {how}"
    size = _size(variant, "exploit", arms)
    if variant.informed:
        kind = str(variant.trigger).partition(":")[2] or "value promise"
        when = f"on {kind} at rate {size}"
    elif variant.exploit is not None and variant.exploit.unit == "rate":
        when = f"at random at rate {size}"
    else:
        when = f"after {size}" if _symmetric(variant) else f"after exploiting {size}"
    what = "switches both ways"
    if not _symmetric(variant):
        what = f"explores {_size(variant, 'explore', arms)}"
    return f"{what} {when}, starts with {variant.start}"
