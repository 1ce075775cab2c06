"""The switch inside agents of other libraries; each file needs the extra of its library.

sb3      Stable-Baselines3 and sb3-contrib: DQN and QR-DQN
torchrl  TorchRL: a module after `QValueModule`
"""

from importlib import import_module
from typing import Any

from sidequest.switching.variants import Variant, parse


def require(module: str, extra: str) -> Any:
    """Imports a library, or says in one line which extra of sidequest brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ImportError(
            f"sidequest.integrations.{extra} needs {module.partition('.')[0]}: "
            f'in the clone, pip install ".[{extra}]"'
        ) from None


def parse_uniform(variant: str | Variant) -> Variant:
    """Returns a variant that any agent with one Q-network can follow, or refuses it."""
    parsed = parse(variant)
    if parsed.mode != "XU" or parsed.heads != ("extrinsic",):
        raise ValueError(
            f"{parsed} needs more than one Q-network: choose a variant of XU with the "
            "trigger blind or informed, such as XU-intra(10,informed,0.01,G)"
        )
    return parsed
