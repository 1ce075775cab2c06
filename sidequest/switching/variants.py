"""The paper's names of variants: `"XU-intra(100,informed,p*,X)"` <-> `Variant`.

    variant   =  mode "-" ( "experiment-level-" ("G" | "X")
                          | "episode-level-" ("*" | probability)
                          | "step-level-" probability
                          | "intra(" n_X "," trigger "," n_G "," start ")" )
    mode      =  "XU" | "XI" | "XS" | "Xγ"                 Xγ may be typed XD
    n_X       =  steps | share "%" | "*" | "="             "=": symmetric with n_G
    trigger   =  "blind" | "informed" | "informed:mismatch" | "informed:variance"
    n_G       =  steps | share "%" | probability | "n*" | "p*"      after "blind"
              |  target rate | "p*"                                 after "informed"
    start     =  "G" | "X"

Sections 2 and 3.1 of the paper define what the names mean. This file needs no JAX.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sidequest.errors import VariantError

STEPS_ALLOWED = (1, 10_000_000)  # a count above 2^24 is not exact in float32
RATE_ALLOWED = (1e-9, 1.0)
EXAMPLE = "XU-intra(10,informed,p*,X)"


class ExploreMode(NamedTuple):
    """Says what exploring does, in words; its numbers are in `agent.modes`."""

    words: str
    heads: tuple[str, ...] = ()
    """Heads of the Q-network that it needs beside the extrinsic one."""


class Trigger(NamedTuple):
    """Says what ends an exploit period, in words; its signal is in `switching.triggers`."""

    words: str = ""
    heads: tuple[str, ...] = ()
    """Heads of the Q-network that it needs beside the extrinsic one."""
    signals: tuple[str, ...] = ()
    """Fields of `Signals` that it reads."""


MODES = {
    "XU": ExploreMode("uniformly random actions"),
    "XI": ExploreMode(
        "the greedy actions of a head that learns an intrinsic reward, for novelty",
        heads=("intrinsic",),
    ),
    "XS": ExploreMode(
        "epsilon-greedy actions with epsilon 0.4 (exploiting has epsilon 0.1)"
    ),
    "Xγ": ExploreMode(
        "the greedy actions of a head with a shorter discount", heads=("short",)
    ),
}
TRIGGERS = {
    "blind": Trigger(),
    "informed": Trigger(
        "the value promise discrepancy (what was promised a few steps ago, less what came)",
        signals=("reward", "discount", "value"),
    ),
    "informed:mismatch": Trigger(
        "the action mismatch between two heads",
        heads=("twin",),
        signals=("action_mismatch",),
    ),
    "informed:variance": Trigger(
        "the variance of the Q-values between two heads",
        heads=("twin",),
        signals=("value_variance",),
    ),
}
"""Triggers by name, the informed ones in the order of `switching.triggers.SIGNALS`."""


class Amount(NamedTuple):
    """Says how long a period lasts, or how likely it is to end at a step."""

    unit: Literal["steps", "share", "rate", "same"]
    """`share` is in per cent of the episode's length; `same` is the paper's `=`."""
    value: float | None = None
    """None: a bandit chooses it at the start of each episode."""

    @property
    def adaptive(self) -> bool:
        return self.value is None and self.unit != "same"

    def __str__(self) -> str:
        if self.value is None:
            return {"steps": "n*", "rate": "p*", "same": "="}[self.unit]
        if self.unit == "steps":
            return str(int(self.value))
        if self.unit == "share":
            return repr(self.value).removesuffix(".0") + "%"
        return repr(self.value)


class ArmSets(NamedTuple):
    """The arms of the bandits; the defaults are the paper's (section 3.1)."""

    explore_steps: tuple[int, ...] = (1, 10, 100)
    exploit_steps: tuple[int, ...] = (10, 100, 1_000, 10_000)
    rates: tuple[float, ...] = (0.1, 0.01, 0.001, 0.0001)

    @property
    def width(self) -> int:
        """Entries that every set has room for; a start has two, G and X."""
        return max(2, *map(len, self))


PAPER_ARMS = ArmSets()


@dataclass(frozen=True)
class Variant:
    """One way to decide when to explore. Made by `parse`; `str` gives its name."""

    mode: str
    """What exploring does: XU uniform, XI intrinsic reward, XS softer epsilons,
    Xγ a shorter discount."""
    granularity: Literal["experiment", "episode", "step", "intra"]
    explore: Amount | None = None
    """n_X, how an explore period ends (intra only)."""
    trigger: str | None = None
    """What ends an exploit period: one of `TRIGGERS`."""
    exploit: Amount | None = None
    """n_G, when the trigger ends an exploit period; for step-level the probability
    that a step explores."""
    start: str | Amount = "G"
    """The mode of an episode's first step, or the probability that it is explore."""

    def __str__(self) -> str:
        match self.granularity:
            case "experiment":
                return f"{self.mode}-experiment-level-{self.start}"
            case "episode":
                return f"{self.mode}-episode-level-{_short(self.start)}"
            case "step":
                return f"{self.mode}-step-level-{self.exploit}"
        explore = _short(self.explore)
        return f"{self.mode}-intra({explore},{self.trigger},{self.exploit},{self.start})"

    @property
    def informed(self) -> bool:
        return self.trigger is not None and self.trigger.startswith("informed")

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the Q-network that this variant needs."""
        trigger = TRIGGERS[self.trigger or "blind"]
        return ("extrinsic", *MODES[self.mode].heads, *trigger.heads)

    @property
    def signals(self) -> tuple[str, ...]:
        """The fields of `Signals` that the trigger reads."""
        return TRIGGERS[self.trigger or "blind"].signals

    def bandits(self, arms: ArmSets = PAPER_ARMS) -> dict[str, tuple[float, ...]]:
        """Returns the arms of each adapted dimension, by its name; empty if all is fixed.

        `start` chooses the mode of whole episodes: 0 exploits, 1 explores.
        """
        bandits: dict[str, tuple[float, ...]] = {}
        if isinstance(self.start, Amount) and self.start.adaptive:
            bandits["start"] = (0.0, 1.0)
        if self.explore and self.explore.adaptive:
            bandits["explore"] = arms.explore_steps
        if self.exploit and self.exploit.adaptive:
            steps = self.exploit.unit == "steps"
            bandits["exploit"] = arms.exploit_steps if steps else arms.rates
        return bandits

    def as_dict(self) -> dict:
        """Returns the structure for other programs; amounts are written as in the name.

        A step-level variant has no starting mode: its first step is as any other.
        """
        return {
            "name": str(self),
            "mode": self.mode,
            "granularity": self.granularity,
            "explore": self.explore and _short(self.explore),
            "trigger": self.trigger,
            "exploit": self.exploit and str(self.exploit),
            "start": None if self.granularity == "step" else _short(self.start),
            "heads": list(self.heads),
            "signals": list(self.signals),
            "bandits": [
                {"name": name, "arms": list(values)}
                for name, values in self.bandits().items()
            ],
        }


def parse(text: str | Variant) -> Variant:
    """Reads a variant's name; white space and the case of letters do not matter.

    Raises:
      VariantError: showing the text with a caret under the fault.
    """
    if isinstance(text, Variant):
        return text
    if not isinstance(text, str):
        raise VariantError(f"a variant is a name such as {EXAMPLE!r}; got {text!r}")
    reader = _Reader(text)
    try:
        return reader.variant()
    except _Fault as fault:
        shown = "".join(c if c.isprintable() else "·" for c in text)
        before = shown[: reader.place]
        columns = len(before) + sum(unicodedata.east_asian_width(c) in "WF" for c in before)
        raise VariantError(
            f"no variant has this name:\n    {shown}\n    {' ' * columns}^\n"
            f"Allowed here: {fault}.\nA valid name: {_nearest(text, reader.place)}"
        ) from None


_REPAIRS = (
    *("", ")", ",", ",G", "G", "-", "level-", "XU-", "XU", "intra", "intra("),
    *("informed", "informed,", "mismatch", "0.01", "10", "10,", "*"),
)


def _nearest(text: str, place: int) -> str:
    """Returns a valid name that differs from the text only at the fault, or an example."""
    rest = text[place:]
    without_token = re.sub(r"^[^-,()]*", "", rest)
    for repair in _REPAIRS:
        for end in (without_token, rest[1:], rest):
            try:
                return str(_Reader(text[:place] + repair + end).variant())
            except _Fault:
                pass
    return EXAMPLE


class _Fault(Exception):
    """Says what is allowed at the reader's place."""


class _Reader:
    """Reads the text once; `place` is where the next token starts."""

    def __init__(self, text: str):
        self.text = text
        self.place = 0

    def variant(self) -> Variant:
        typed = {**{mode.lower(): mode for mode in MODES}, "xd": "Xγ"}
        wanted = f"an explore mode: {_either(MODES)} (XD for Xγ)"
        mode = typed[self.word(*typed, wanted=wanted)]
        self.word("-", wanted="a hyphen between the explore mode and the granularity")
        level = self.word(
            *("experiment", "episode", "step", "intra"),
            wanted="experiment-level-…, episode-level-…, step-level-… or intra(…)",
        )
        if level == "intra":
            variant = self.intra(mode)
        else:
            for token in ("-", "level", "-"):
                self.word(token, wanted=f"{level}-level-…")
            variant = getattr(self, level)(mode)
        self.skip_space()
        if self.place < len(self.text):
            raise _Fault("nothing more: the name is complete here")
        return variant

    def experiment(self, mode: str) -> Variant:
        start = self.word("g", "x", wanted="G or X").upper()
        return Variant(mode, "experiment", start=start)

    def episode(self, mode: str) -> Variant:
        wanted = "* (a bandit) or a probability such as 0.3"
        if self.sees("*"):
            self.word("*")
            return Variant(mode, "episode", start=Amount("rate"))
        return Variant(mode, "episode", start=self.amount(("rate",), wanted))

    def step(self, mode: str) -> Variant:
        rate = self.amount(("rate",), "a probability such as 0.01")
        return Variant(mode, "step", trigger="blind", exploit=rate)

    def intra(self, mode: str) -> Variant:
        self.word("(", wanted="an opening bracket")
        explore = self.explore_amount()
        self.word(",", wanted="a comma after n_X")
        trigger = self.trigger()
        self.word(",", wanted="a comma after the trigger")
        exploit = self.exploit_amount(trigger)
        self.word(",", wanted="a comma and the starting mode, G or X")
        start = self.word("g", "x", wanted="G or X, the starting mode")
        self.word(")", wanted="a closing bracket")
        return Variant(mode, "intra", explore, trigger, exploit, start.upper())

    def explore_amount(self) -> Amount:
        if self.sees("*", "="):
            adaptive = self.word("*", "=") == "*"
            return Amount("steps") if adaptive else Amount("same")
        wanted = "n_X: a number of steps, a share such as 5%, * (a bandit) or ="
        return self.amount(("steps", "share"), wanted)

    def trigger(self) -> str:
        wanted = f"a trigger: {_either(TRIGGERS)}"
        trigger = self.word("blind", "informed", wanted=wanted)
        if trigger == "informed" and self.sees(":"):
            self.word(":")
            kinds = [name.partition(":")[2] for name in TRIGGERS if ":" in name]
            kind = self.word(*kinds, wanted=wanted)
            trigger = f"informed:{kind}"
        return trigger

    def exploit_amount(self, trigger: str) -> Amount:
        if trigger == "blind":
            units: tuple[str, ...] = ("steps", "share", "rate")
            wanted = "n_G: steps, a share such as 5%, a probability, n* or p*"
        else:
            units = ("rate",)
            wanted = "a target rate such as 0.01, or p*; informed triggers count no steps"
        if self.sees("p*"):
            self.word("p*")
            return Amount("rate")
        if self.sees("n*") and trigger == "blind":
            self.word("n*")
            return Amount("steps")
        return self.amount(units, wanted)

    def amount(self, units: tuple[str, ...], wanted: str) -> Amount:
        """Reads a number whose form gives its unit: `10` steps, `5%` share, `0.1` rate."""
        self.skip_space()
        number = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
        match = number.match(self.text, self.place)
        if match is None or len(match.group()) > 30:
            raise _Fault(wanted)
        text, after = match.group(), match.end()
        percent = re.compile(r"\s*%").match(self.text, after)
        if percent:
            amount = Amount("share", float(text))
            low, high, noun = 1e-6, 100.0, "a share of the episode above 0% and up to 100%"
        elif text.isdigit():
            amount = Amount("steps", float(text))
            low, high, noun = *STEPS_ALLOWED, "a period of 1 to 10000000 steps"
        else:
            amount = Amount("rate", float(text))
            low, high, noun = *RATE_ALLOWED, "a probability above 0 and up to 1.0"
        if amount.unit not in units:
            raise _Fault(wanted)
        if not low <= float(text) <= high:
            raise _Fault(noun)
        self.place = percent.end() if percent else after
        return amount

    def skip_space(self) -> None:
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1

    def find(self, options: tuple[str, ...]) -> str | None:
        self.skip_space()
        for option in options:
            if self.text[self.place : self.place + len(option)].lower() == option:
                return option
        return None

    def sees(self, *options: str) -> bool:
        return self.find(options) is not None

    def word(self, *options: str, wanted: str = "") -> str:
        """Reads the first of the options that is next, or fails."""
        option = self.find(options)
        if option is None:
            raise _Fault(wanted)
        self.place += len(option)
        return option


def _short(amount: Amount | str | None) -> str:
    """Returns an amount as in a name where only one kind may stand: a bandit is `*`."""
    return re.sub(r"[np]\*", "*", str(amount))


def _either(names: Iterable[str]) -> str:
    """Returns names as text: `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"
