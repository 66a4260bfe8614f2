"""What an export is: the files of another tool, and a word on everything that the tool cannot be told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from fadiff.files import write_folder

if TYPE_CHECKING:
    from fadiff.schedule import Schedule
    from fadiff.workload import Workload

LAYERS = "layers"
"""The folder that holds one for each layer."""
README = "README.md"
NAME_LENGTH = 80
"""Signs of the name of a folder."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a reader of the files has to know: of a layer or, where `layer` is None, of the machine."""

    layer: str | None
    text: str
    lost: bool = True
    """Whether the tool cannot be told it; else it is told, in a way that needs a word."""

    def __str__(self) -> str:
        return self.text if self.layer is None else f"{self.layer}: {self.text}"


@dataclass(frozen=True)
class Exported:
    """A schedule in the files of another tool."""

    files: Mapping[str, str]
    """Texts by path, relative to the folder that takes them."""
    remarks: Sequence[Remark]

    @property
    def lost(self) -> list[Remark]:
        """What the tool cannot be told."""
        return [remark for remark in self.remarks if remark.lost]

    def save(self, folder: Path | str) -> None:
        """Write all files into a new folder, or none."""
        write_folder(Path(folder), self.files)


def dump(data: object) -> str:
    """Plain values as YAML, with short lists and mappings on one line."""
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)


def plain_names(names: Iterable[str], taken: Iterable[str] = (), signs: str = r"\w") -> list[str]:
    """Each name in plain signs, at most `NAME_LENGTH` of them: all different, also where case does not count.

    >>> plain_names(["l1.conv", "l1/conv", "relu 6"])
    ['l1_conv', 'l1_conv_2', 'relu_6']
    """
    used = {name.casefold() for name in taken}
    found: list[str] = []
    for name in names:
        plain = re.sub(rf"[^{signs}]", "_", name, flags=re.ASCII)[:NAME_LENGTH]
        numbered, turn = plain, 1
        while numbered.casefold() in used:
            turn += 1
            numbered = f"{plain}_{turn}"
        used.add(numbered.casefold())
        found.append(numbered)
    return found


def folder_names(of: Schedule | Workload) -> dict[str, str]:
    """The folder of each MAC layer."""
    names = [layer.name for layer in of.layers if layer.is_mac]
    return {name: f"{LAYERS}/{plain}" for name, plain in zip(names, plain_names(names, signs=r"\w-"), strict=True)}


def readme(title: str, how: str, schedule: Schedule, remarks: Sequence[Remark]) -> str:
    """The page that goes with the files: how they are used, whose they are, and every remark."""
    folders = folder_names(schedule)
    lines = [f"# {title}", "", how.strip(), "", "| layer | runs | MACs of a run | folder |", "|---|---|---|---|"]
    for layer in schedule.layers:
        folder = folders.get(layer.name, "-")
        lines.append(f"| {_cell(layer.name)} | {layer.repeat} | {layer.macs:,} | {folder} |")
    for heading, lost in (("What is not in the files", True), ("What else to know", False)):
        told = by_text([remark for remark in remarks if remark.lost is lost])
        found = [f"{', '.join(layers)}: {text}" if layers else text for text, layers in told.items()]
        lines += ["", f"## {heading}", "", *(f"- {line}" for line in found or ["Nothing."])]
    return "\n".join(lines) + "\n"


def by_text(remarks: Iterable[Remark]) -> dict[str, list[str]]:
    """What is said, with the layers it is said of; none where it is said of the machine."""
    found: dict[str, list[str]] = {}
    for remark in remarks:
        layers = found.setdefault(remark.text, [])
        if remark.layer is not None:
            layers.append(remark.layer)
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
