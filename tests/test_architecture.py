"""Follows docs/architecture.md: its names exist, and what it adds works."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest

from sidequest.agent import modes
from sidequest.environments import registry
from sidequest.errors import VariantError
from sidequest.figures import claims, gallery
from sidequest.figures.claims import Verdict
from sidequest.figures.data import Plot, Records
from sidequest.records import read_table
from sidequest.runs.trainer import run
from sidequest.switching import triggers, variants
from sidequest.switching.descriptions import describe
from sidequest.switching.variants import parse
from tests.figures.made_up import all_cells, make_study
from tests.reliability.harness import CHUNK, CONFIG, Watcher, specs
from tests.runs.tiny import bargains

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_names_on_the_page_exist():
    dotted = re.findall(r"`((?:\w+\.)+\w+)`", PAGE.replace('("suite:game", make)', ""))
    names = [name for name in dotted if not name.endswith((".py", ".toml"))]
    assert len(names) > 15
    for name in names:
        package, *rest = name.split(".")
        if not package[0].islower():  # such as Actor.act
            owner = {"Actor": "agent.actor", "Learner": "agent.learner"}
            package = owner.get(package, "replay.replay")
            rest = name.split(".")
            found = reduce(getattr, rest, import_module(f"sidequest.{package}"))
        else:
            module = import_module(f"sidequest.{package}.{rest[0]}")
            found = reduce(getattr, rest[1:], module)
        assert found is not None, name


def test_the_files_on_the_page_exist_and_hold_the_tables_it_names():
    lines = re.findall(r"^\d\. .*", PAGE, re.MULTILINE)
    assert len(lines) > 12
    for line in lines:
        paths = [ROOT / name for name in re.findall(r"`(sidequest/\S+\.\w+)`", line)]
        content = "".join(path.read_text(encoding="utf-8") for path in paths)
        for table in re.findall(r"`(_?[A-Z_]{4,}|_\w+|make_heads)`", line):
            assert re.search(rf"\b{table}\b", content), (line, table)


def test_it_fits_on_a_page():
    assert len(PAGE.splitlines()) <= 100


VARIANT = "XM-intra(2,informed:surprise,0.1,G)"


def test_a_trigger_an_explore_mode_and_an_environment_are_added(monkeypatch, tmp_path):
    with pytest.raises(VariantError):
        parse(VARIANT)
    # A trigger: explore after large rewards.
    surprise = triggers.stateless(lambda signals: jnp.abs(signals.reward))
    monkeypatch.setitem(triggers.SIGNALS, "informed:surprise", surprise)
    entry = variants.Trigger("the size of the reward", signals=("reward",))
    monkeypatch.setitem(variants.TRIGGERS, "informed:surprise", entry)
    # An explore mode: half of its actions are uniform.
    monkeypatch.setitem(modes.EXPLORE, "XM", (0.5, "extrinsic"))
    mode = variants.ExploreMode("greedy and random actions in equal parts")
    monkeypatch.setitem(variants.MODES, "XM", mode)
    # An environment.
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("mine:bargains", bargains)

    variant = parse(VARIANT)
    assert str(variant) == VARIANT and variant.heads == ("extrinsic",)
    assert "greedy and random actions" in describe(variant)[0]
    assert "the size of the reward is high" in describe(variant)[2]
    (spec,) = specs(tmp_path, 0, variant=VARIANT)
    run([spec._replace(game="mine:bargains", frames=2 * CHUNK, config=CONFIG)], Watcher())
    traces = read_table(spec.folder, "traces")
    assert "X" in "".join(traces["modes"])
    # The trigger saw |reward| of the step before, where an exploit period could end.
    for _, _, _, _, length, letters, signal, reward in traces.iter_rows():
        seen = np.abs(np.array([np.nan, *reward[:-1]], np.float32))
        known = np.array([value is not None for value in signal])
        np.testing.assert_allclose(np.array(signal, np.float32)[known], seen[known], 1e-6)
        assert length == len(letters) and not known[0]
    assert any(value for values in traces["signal"] for value in values if value)


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> Records:
    from sidequest.figures.data import read_records

    return read_records(make_study(tmp_path_factory.mktemp("study"), all_cells()[:4]))


def lengths(records: Records) -> Plot | None:
    """Draws how long episodes were."""
    if records.episodes.is_empty():
        return None
    table = records.episodes.group_by("run").agg(pl.len()).sort("run")
    figure, axes = plt.subplots()
    axes.bar(table["run"], table["len"])
    return Plot(figure, f"{table['len'].sum()} episodes.", table)


def test_a_figure_is_added(monkeypatch, records, tmp_path):
    text = dict.fromkeys(("title", "paper", "look_for", "needs", "notes"), "text")
    entry = gallery.Entry("lengths", lengths, **text)
    assert text.keys() == gallery.GALLERY[0]._asdict().keys() - {"name", "draw"}
    monkeypatch.setattr(gallery, "GALLERY", (*gallery.GALLERY, entry))
    (drawn,) = gallery.draw_gallery(records, tmp_path, only=["lengths"])
    assert drawn.caption == f"{len(records.episodes)} episodes."
    assert drawn.paths and all(path.stat().st_size for path in drawn.paths)


def many_episodes(records: Records) -> Verdict:
    """Judges whether runs had more than 3 episodes each."""
    fewest = records.runs["episodes"].min()
    passed = isinstance(fewest, int) and fewest > 3
    return Verdict("supported" if passed else "not supported", f"{fewest} or more.")


def test_a_claim_is_added(monkeypatch, records):
    text = dict.fromkeys(("sentence", "paper", "needs", "rule"), "text")
    claim = claims.Claim("many-episodes", many_episodes, **text)
    assert text.keys() == claims.CLAIMS[0]._asdict().keys() - {"name", "judge"}
    monkeypatch.setattr(claims, "CLAIMS", (claim,))
    ((judged, verdict),) = claims.judge_all(records)
    assert judged is claim and verdict.state == "supported"
