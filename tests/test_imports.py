"""Which package may import which, and what importing sidequest loads."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from sidequest import errors

PACKAGE = Path(__file__).parents[1] / "sidequest"

# Each package, and what it may import of the others. It always may import itself.
SEES = {
    "sidequest": {"errors", "switching"},  # the public names
    "types": set(),
    "errors": set(),
    "records": {"errors"},
    "wording": set(),
    "config": {"errors", "switching"},
    "switching": {"types", "errors"},
    "replay": {"types"},
    "environments": {"types", "errors"},
    "agent": {"types", "switching"},
    "integrations": {"switching"},
    "runs": {
        *("types", "errors", "config", "records", "wording", "switching", "replay"),
        *("environments", "agent"),
    },
    "bench": {
        *("types", "errors", "config", "records", "switching", "replay"),
        *("environments", "agent", "runs"),
    },
    # Reads records, names of variants and reference scores: modules that run nothing.
    "study": {
        *("types", "errors", "config", "records", "wording", "switching"),
        *("environments", "runs"),
    },
    "figures": {
        *(
            "types",
            "errors",
            "config",
            "records",
            "wording",
            "switching.variants",
            "switching.descriptions",
            "switching.simulation",  # on NumPy alone
            "environments.scores",
        ),
    },
}
SEES["cli"] = set(SEES)  # all of it
SEES["__main__"] = {"cli"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(name: str, path: Path) -> set[str]:
    """The modules of this package that a file names, wherever in it that is."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:  # from . import x, from .x import y
                inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
                parents = inside.split(".")
                parents = parents[: len(parents) - node.level + 1]
                origin = ".".join([*parents, *origin.split(".")]).strip(".")
            found.add(origin)
            # What is imported from a package may be one of its modules.
            modules = {f"{origin}.{alias.name}" for alias in node.names}
            found |= modules & MODULES.keys()
            if modules & MODULES.keys():
                found.discard(origin)
    return {module for module in found if module.split(".")[0] == "sidequest"}


def package(module: str) -> str:
    return ".".join(module.split(".")[1:2]) or "sidequest"


def may_see(module: str, other: str) -> bool:
    inside = ".".join(other.split(".")[1:]) or "sidequest"
    allowed = {package(module), *SEES[package(module)]}
    return any(inside == name or inside.startswith(f"{name}.") for name in allowed)


def test_packages_import_only_what_they_may():
    new = {package(module) for module in MODULES} - SEES.keys()
    assert not new, f"say in this file what {new} may import"
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in sorted(imported(module, path))
        if not may_see(module, other)
    ]
    assert not wrong, "\n".join(wrong)


def test_this_test_sees_every_kind_of_import(tmp_path):
    path = tmp_path / "file.py"
    path.write_text(
        "import sidequest.runs\n"
        "from sidequest import types\n"
        "from sidequest.switching.variants import parse\n"
        "from . import homeostasis\n"
        "from ..replay import replay\n"
        "def f():\n    from sidequest.agent import actor\n"
        "import numpy, sidequestionable\n"
    )
    assert imported("sidequest.switching.file", path) >= {
        "sidequest.runs",
        "sidequest.types",
        "sidequest.switching.variants",
        "sidequest.switching.homeostasis",
    }
    packages = {package(found) for found in imported("sidequest.switching.file", path)}
    assert packages == {"runs", "types", "switching", "replay", "agent"}
    assert not may_see("sidequest.switching.file", "sidequest.runs")
    assert not may_see("sidequest.figures.file", "sidequest.runs")
    assert may_see("sidequest.figures.file", "sidequest.records")
    assert not may_see("sidequest.types", "sidequest.switching")


HEAVY = {
    *("ale_py", "gymnasium", "gymnax", "xminigrid", "matplotlib", "polars", "pandas"),
    *("ray", "av", "tensorboardX", "tyro", "rich", "flax", "optax", "equinox", "torch"),
}


def loaded_by(statement: str) -> set[str]:
    """Returns the top-level modules after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys; print({{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    return ast.literal_eval(done.stdout)


def test_importing_the_package_costs_nothing():
    modules = loaded_by("import sidequest; sidequest.parse('XU-step-level-0.1')")
    assert not modules & (HEAVY | {"jax", "numpy"})


def test_the_switch_needs_numpy_and_nothing_else():
    step = "sidequest.Switch('XU-intra(10,informed,p*,X)').step(value=1.0)"
    modules = loaded_by(f"import sidequest; {step}; sidequest.periods('GX')")
    assert "numpy" in modules
    assert not modules & (HEAVY | {"jax", "jaxtyping"})


def run_without(arguments: list[str], packages: set[str]) -> subprocess.CompletedProcess:
    """Runs the command in a process where importing these packages fails."""
    code = (
        f"import sys\nfor name in {sorted(packages)}: sys.modules[name] = None\n"
        f"from sidequest.cli import main\nmain({arguments})"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )


TRAIN = {
    *("jax", "jaxlib", "jaxtyping", "equinox", "optax", "ale_py", "gymnasium", "gymnax"),
    *("xminigrid", "jinja2", "matplotlib", "polars"),
}


def test_the_base_install_explains_and_lists_settings():
    for arguments in (
        ["explain", "XU-intra(10,informed,p*,X)"],
        ["explain", "XU-step-level-0.1", "XU-episode-level-*"],
        ["settings"],
        ["train", "--help"],
    ):
        done = run_without(arguments, TRAIN)
        assert done.returncode == 0, (arguments, done.stderr)
        assert done.stdout


def test_a_command_whose_extra_is_missing_says_which_to_install():
    for arguments, packages in [
        (["train", "XU-step-level-0.1", "--game", "classic:cartpole"], TRAIN),
        (["figures", "."], {"matplotlib", "polars"}),
        (["games"], TRAIN),
    ]:
        done = run_without(arguments, packages)
        assert done.returncode == 2, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"`sidequest {arguments[0]}` needs " in done.stderr
        assert 'pip install ".[train]"' in done.stderr


def test_extras_are_what_the_message_says():
    with open(PACKAGE.parent / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    names = {re.split(r"[\[<>=~ ]", line)[0] for line in project["dependencies"]}
    assert names == {"numpy", "tyro", "rich"}
    train = project["optional-dependencies"]["train"]
    train = {re.split(r"[\[<>=~ ]", line)[0].replace("-", "_") for line in train}
    assert errors._TRAIN == train - {"six"}
