"""The documentation is true: links, pictures, examples, generated pages, words.

`python -m tests.test_docs` writes the page of commands again.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sidequest
from sidequest.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]


COMMANDS_PAGE = ROOT / "docs/reference/commands.md"
COMMANDS_INTRODUCTION = """# Commands

`sidequest COMMAND --help` prints what follows. Exit codes are in
[Reliability](../reliability.md#exit-codes).

Completion of commands and options: `source <(sidequest --completion bash)` (or `zsh`,
`tcsh`); put the line into your shell's start-up file to keep it.
"""


def commands_page() -> str:
    """Returns the page of commands, made of their help."""
    parts = [COMMANDS_INTRODUCTION]
    for command in COMMANDS:
        environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
        arguments = [sys.executable, "-m", "sidequest", command, "--help"]
        help = subprocess.check_output(arguments, text=True, env=environment)
        text = "\n".join(line.rstrip() for line in help.splitlines())
        parts.append(f"## {command}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(parts)


def test_the_page_of_commands_is_their_help():
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    # By words: another version of tyro may draw its boxes differently.
    assert re.findall(r"[\w-]+", page) == re.findall(r"[\w-]+", commands_page())


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_and_pictures_exist(page):
    """The site's strict build checks pages and anchors; this also checks files."""
    for target in re.findall(r"\]\(((?!http|#)[^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_picture_is_shown_somewhere():
    shown = set()
    for page in PAGES:
        for target in re.findall(r"\]\(((?!http|#)[^)#\s]+)", page.read_text("utf-8")):
            shown.add((page.parent / target).resolve())
    pictures = {
        path.resolve()
        for ending in ("png", "gif", "svg")
        for path in (ROOT / "docs").rglob(f"*.{ending}")
    }
    assert not sorted(str(path.relative_to(ROOT)) for path in pictures - shown)


def test_what_the_pages_import_is_on_the_page_of_public_names():
    """What is not named there may change, it says, and guides told people to rely on it."""
    public = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    names = [f"sidequest.{name}" for name in sidequest.__all__]
    for page in PAGES:
        imported = r"^from (sidequest\S*) import (.*)"
        for module, some in re.findall(imported, page.read_text("utf-8"), re.MULTILINE):
            names += [f"{module}.{name}" for name in some.partition("#")[0].split(", ")]
    assert not [
        name
        for name in map(str.strip, names)
        if f"::: {name}\n" not in public and name.split(".")[1] != "integrations"
    ]


def test_the_example_of_a_trigger_runs(capsys):
    page = (ROOT / "docs/guide/your-trigger.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "your-trigger.md", "exec"), {})
    # Rate 0.01 with 10 explore steps: 10 of every 110 steps explore, in the long run.
    assert 0.03 < float(capsys.readouterr().out) < 0.2


def test_the_example_of_gymnax_is_an_environment():
    import jax

    from sidequest.environments import suites

    suites._load_gymnax()  # without its drawing libraries
    page = (ROOT / "docs/guide/your-environment.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (example,) = [one for one in examples if "gymnax" in one]
    mine: dict = {}
    exec(compile(example, "your-environment.md", "exec"), mine)
    environment, key = mine["catch"](), jax.random.key(0)
    state, timestep = environment.reset(key)
    rewards = 0.0
    for _ in range(9):  # the ball falls nine rows, then it is caught or lost
        state, timestep = environment.step(key, state, jax.numpy.int32(1))
        rewards += float(timestep.reward)
    assert timestep.terminated and timestep.is_first and abs(rewards) == 1.0


def test_the_example_of_an_agent_runs(capsys):
    page = (ROOT / "docs/guide/your-agent.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "your-agent.md", "exec"), {})
    assert "'p_X':" in capsys.readouterr().out


WORDS_WE_DO_NOT_USE = (
    r"\bmend(s|ed)?\b",
    r"bit by bit",
    r"there and back",
    r"\b(go|goes|going|went) on\b",
    r"\bcut off\b",
    r"\bleaves? behind\b",
    r"\bby turns\b",
    r"was asked for",
    r"stood still",
    r"for want of",
    r"\bgreatest\b",
    r"\b(sitting|keeper|scribe|teller|crews?|labour|cargo|rehearsal|enrol|hired?)\b",
    r"\b(company|memory held)\b",
    r"what the network says",
)
TEXTS = [
    *PAGES,
    *(ROOT / "examples").glob("*.py"),
    *(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)),
    *(
        path
        for ending in ("py", "toml", "html")
        for path in (ROOT / "sidequest").rglob(f"*.{ending}")
    ),
]


@pytest.mark.parametrize("pattern", WORDS_WE_DO_NOT_USE)
def test_words(pattern):
    """The field's words: these are ours, and nobody else's."""
    for path in TEXTS:
        text = " ".join(path.read_text(encoding="utf-8").split())
        found = re.search(pattern, text, re.IGNORECASE)
        assert found is None, f"{path.relative_to(ROOT)}: {found}"


if __name__ == "__main__":
    COMMANDS_PAGE.write_text(commands_page(), encoding="utf-8")
