"""sidequest: *when* should an agent explore?

The packages, and what each is for:

types         axis legend; Mode, Signals, Timestep, EpisodeSummary
errors        every error that a user can meet, with its exit code
config        settings with their ranges; the presets PAPER and SMALL
records       tables, run.json and study.json on disk
wording       numbers and nouns in texts for people
switching     WHEN to explore: variants, triggers, homeostasis, bandits
agent         HOW to act and learn: R2D2
replay        WHAT to remember: prioritised sequences on the accelerator
environments  WHERE: JAX-native games, probe tasks, Atari
runs          one run from start to finish
study         many runs: the paper's studies as data, and how they are trained
figures       plots of records, the paper's claims, the report, films
integrations  the switch in Stable-Baselines3 and TorchRL
bench         how fast it is
cli           the command `sidequest`

The names below are the public ones; they load when first used, so that importing the
package, and asking the command for help, costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sidequest.errors import VariantError
from sidequest.switching.variants import Variant, parse

if TYPE_CHECKING:
    from sidequest.switching.periods import PeriodStats, periods
    from sidequest.switching.shell import Switch, step_arguments

__all__ = [
    "PeriodStats",
    "Switch",
    "Variant",
    "VariantError",
    "parse",
    "periods",
    "step_arguments",
]
__version__ = "0.1.0"

_LAZY = {
    "PeriodStats": "sidequest.switching.periods",
    "Switch": "sidequest.switching.shell",
    "periods": "sidequest.switching.periods",
    "step_arguments": "sidequest.switching.shell",
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sidequest' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
