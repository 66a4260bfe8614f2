"""The layers of the package: a module imports only from layers below its own, or from its own package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "fadiff"
LAYERS = (
    ("errors",),
    ("files",),
    ("file_kinds",),
    ("workload",),
    ("hardware",),
    ("schedule",),
    ("cost", "execute"),
    ("agreement",),
    ("export",),
    ("search",),
    ("sweeps",),
    ("analysis",),
    ("report",),
    ("reproduce",),
    ("cli",),
    ("__main__",),
)
"""From the bottom up. Parts of one layer do not know each other: the executor shares nothing with the cost model."""
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
SURFACE = "__init__"
"""The public names, gathered from all layers but the command line."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Parts of the package that a module imports, anywhere in it; the package itself is `__init__`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports name the whole path"
            names = [node.module or ""]
            if node.module == "fadiff":
                names = [f"fadiff.{alias.name}" for alias in node.names if (PACKAGE / alias.name).is_dir()] or names
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "fadiff":
                yield [*name.split("."), SURFACE][1]


def test_every_part_has_a_layer():
    assert {part_of(path) for path in MODULES} == {*RANK, SURFACE}


@pytest.mark.parametrize("part", [part for layer in LAYERS for part in layer])
def test_imports_lead_downwards(part: str):
    for path in MODULES:
        if part_of(path) != part:
            continue
        for other in set(imported(path)) - {part}:
            if other == SURFACE:
                assert RANK[part] >= RANK["cli"], f"{path} imports the public names: import from where they are made"
            else:
                assert RANK[other] < RANK[part], f"{path} imports fadiff.{other}, which is not below fadiff.{part}"


def test_the_public_names_do_not_need_the_command_line():
    assert "cli" not in set(imported(PACKAGE / "__init__.py"))
