"""What the package imports is what it says it needs."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = {
    "baselines": {"botorch", "gpytorch", "optuna", "pymoo", "torch"},
    "huggingface": {"torch", "transformers"},
    "plots": {"matplotlib"},
}
"""Imports that a user asks for with an extra; all others come with the package."""


def imported() -> set[str]:
    """Top-level modules from elsewhere that the package imports, anywhere in it."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"fadiff", "fadiff_command"}


def declared(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", one)[0].lower() for one in requirements}


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: declared(needed) for name, needed in project["optional-dependencies"].items()}
    come_along, told = declared(project["dependencies"]), packages_distributions()
    optional = set[str]().union(*OPTIONAL.values())
    for module in imported():
        names = {name.lower().replace("_", "-") for name in told[module]}
        if module in optional:
            assert any(names & extras[extra] for extra, brought in OPTIONAL.items() if module in brought), module
        else:
            assert names & come_along, f"{module} is imported, but {sorted(names)} is not among the dependencies"
