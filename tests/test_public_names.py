"""The names that other programs may rely on."""

import inspect
import re
import tomllib
from pathlib import Path

import pytest

import sidequest
from sidequest.switching import homeostasis

ROOT = Path(__file__).parents[1]


def test_the_public_names():
    assert sidequest.__all__ == [
        *("PeriodStats", "Switch", "Variant", "VariantError", "parse", "periods"),
        "step_arguments",
    ]
    assert {*sidequest.__all__} <= {*dir(sidequest)}
    for name in sidequest.__all__:
        assert getattr(sidequest, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Twitch'"):
        sidequest.Twitch  # noqa: B018


def test_one_version():
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert sidequest.__version__ == tomllib.load(file)["project"]["version"]


def parameters(function) -> list[str]:
    return [
        f"{name}={p.default!r}" if p.default is not p.empty else name
        for name, p in inspect.signature(function).parameters.items()
    ]


def test_the_signature_of_switch():
    assert parameters(sidequest.Switch)[:4] == [
        *("variant", "streams=1", "seed=0", "arms=None")
    ]
    step = parameters(sidequest.Switch.step)
    assert {p.split("=")[0] for p in step} >= {"reward", "discount", "value", "is_first"}
    for method in ("step", "state_dict", "load_state_dict", "summary"):
        assert callable(getattr(sidequest.Switch, method))


def test_the_signature_of_homeostasis():
    assert parameters(homeostasis.init) == ["rates=1"]
    assert parameters(homeostasis.step) == [
        *("key", "signal", "rate", "state", "rule='saturated'", "place=0")
    ]
    assert "probability" in homeostasis.HomeostasisState._fields


def test_the_map_in_the_docstring_names_what_there_is():
    for package in ("", "switching"):
        folder = ROOT / "sidequest" / package
        text = (folder / "__init__.py").read_text().split('"""')[1]
        named = set(re.findall(r"^([a-z]+) {2,}\S", text, re.MULTILINE))
        paths = [path for path in folder.iterdir() if path.name != "py.typed"]
        there = {path.stem for path in paths if not path.name.startswith("_")}
        assert named, package
        assert named == there, f"the docstring of sidequest/{package} is not up to date"
