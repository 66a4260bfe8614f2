"""The package as its documentation shows it: docstrings as Markdown, and functions where modules have their names."""

import re
from re import Match
from typing import Any

from griffe import Alias, Extension, Module, Object

EXAMPLE = r"^(?P<example> *>>> .*?)(?=\n *\n|\Z)"
ROLE = r":(?:class|func|data|mod|attr|meth):`~?(?P<name>[^`]+)`"
CODE = r"``.+?``|`.+?`"
TIMES = r"(?<=[\w)\]'])(?P<times>\*)(?=[\w(\[])"
PARTS = re.compile("|".join((EXAMPLE, ROLE, CODE, TIMES)), re.MULTILINE | re.DOTALL)


def to_markdown(docstring: str) -> str:
    """Examples become listings, roles such as :class: plain code, and a*b stays a product."""
    return PARTS.sub(_part, docstring)


def _part(match: Match[str]) -> str:
    match match.lastgroup:
        case "example":
            return f"```pycon\n{match[0]}\n```"
        case "name":
            return f"`{match['name']}`"
        case "times":
            return r"\*"
        case _:
            return match[0]


class Shown(Extension):
    """Called while the package is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401  (as the class above has it)
        """Every docstring is Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:  # noqa: ANN401
        """`fadiff.evaluate` is a function, although `fadiff.cost.evaluate` could be the module it is written in."""
        for name, member in pkg.members.items():
            if isinstance(member, Alias) and member.target_path.startswith(f"{pkg.name}."):
                found = pkg.modules_collection.get_member(member.target_path)
                if isinstance(found, Module) and name in found.members:
                    member.target = found.members[name]
