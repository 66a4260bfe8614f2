"""Timeloop's tables of random mappings: for each machine a schedule whose layers are the rows, and Timeloop's numbers.

Two tables are read into one form. Numbers go by the columns of the general one: ``M{k}`` is the k-th memory of the
machine, outermost first; its `reads`, `fills` (written from further out) and `updates` (sums that arrive from further
in) count words of all instances together, `tile` those of one instance.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.hardware import Axis, Bits, Machine, MachineModel, Memory
from fadiff.schedule import Group, Schedule
from fadiff.schedule import Mapping as LayerMapping
from fadiff.workload import DIMS, Dims, Workload
from fadiff.workload.layer import Input, Layer

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Columns = dict[str, Floats]
"""``[rows]`` of numbers, by column."""
Row = Mapping[str, str]

SHIPPED: Traversable = resources.files("fadiff.reproduce.timeloop") / "data"
EXTRAPOLATED = "extrapolated"
"""Timeloop's default mode: of every loop it walks the first two iterations and scales up the second."""


class Case(NamedTuple):
    """One row: a layer, its mapping, and what Timeloop says of them."""

    layer: Layer
    mapping: LayerMapping
    of: str
    """The layer's name: several rows map the same one."""
    mode: str
    flagged: bool
    """Whether the table says that counts of I are off the rules of tiles."""
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class Reference:
    """The rows of one machine, as the layers of a schedule that runs each on its own."""

    schedule: Schedule
    cases: Sequence[Case]

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def machine(self) -> Machine:
        """The machine, with Timeloop's energies and rates."""
        return self.schedule.machine

    @cached_property
    def numbers(self) -> Columns:
        """Timeloop's numbers; nan where it says nothing."""
        return {name: np.array([case.numbers[name] for case in self.cases]) for name in self.cases[0].numbers}

    @cached_property
    def flagged(self) -> Mask:
        """``[rows]`` whether the table says that counts of I are off the rules of tiles."""
        return np.array([case.flagged for case in self.cases])


def read_references(folder: Traversable = SHIPPED) -> list[Reference]:
    """All rows of both tables, by machine: first the two Gemminis, then the machines of the general table."""
    return [*_gemminis(folder), *_general(folder)]


def _gather(machine: Machine, cases: Sequence[Case]) -> Reference:
    layers = tuple(case.layer for case in cases)
    groups = tuple(Group((layer.name,)) for layer in layers)
    mappings = {case.layer.name: case.mapping for case in cases}
    return Reference(Schedule(Workload(machine.name, layers), machine, groups, mappings), cases)


def _rows(file: Traversable) -> list[Row]:
    with file.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _layer(row: Row, dims: Dims) -> Layer:
    stride, dilation = int(row["stride"]), int(row.get("dilation", "1"))
    return Layer(row["id"], "mac", dims, (Input(None),), (stride, stride), (dilation, dilation))


# The general table: machines and mappings as schedule files write them.


def _general(folder: Traversable) -> Iterator[Reference]:
    rows = _rows(folder / "timeloop_general.csv.gz")
    for data in json.loads((folder / "machines_timeloop.json").read_text(encoding="utf-8"))["machines"]:
        machine = MachineModel.model_validate({key: value for key, value in data.items() if key != "note"}).value()
        yield _gather(machine, [_general_case(machine, row) for row in rows if row["machine"] == machine.name])


def _general_case(machine: Machine, row: Row) -> Case:
    mapping: dict[str, Any] = json.loads(row["mapping"])
    orders = mapping.pop("order", {})
    factors = {node: Dims(**of_dims) for node, of_dims in mapping.items()}
    kept = [f"M{k}_{tensor}_" for k, memory in enumerate(machine.memories) for tensor in memory.keeps]
    names = [name for name in row if name.startswith(tuple(kept)) and row[name]]
    names += [f"M{k}_cycles" for k in range(len(machine.memories))]
    names += ["used_macs", "cycles_compute", "cycles_total", "energy_pj"]
    return Case(
        layer=_layer(row, Dims(*(int(row[dim]) for dim in DIMS))),
        mapping=LayerMapping.of(machine, factors, orders),
        of=row["layer"],
        mode=row["mode"],
        flagged=row["special_i"] != "0",
        numbers={name: float(row[name] or "nan") for name in names},
    )


# The Gemminis' table: a column for every factor, levels from 0 (registers) to 3 (DRAM).

_LEVELS = ("registers", "accumulator", "scratchpad", "DRAM")
_TILES = {
    "M1_W_tile": "L2_W_cap_words",
    "M1_I_tile": "L2_I_cap_words",
    "M2_O_tile": "L1_O_cap_words_per_column",
    "M3_W_tile": "L0_W_cap_words_per_PE",
}


def _gemminis(folder: Traversable) -> Iterator[Reference]:
    """Rows of the two Gemminis with one weight a register, and of both with registers of 64."""
    rows = _rows(folder / "timeloop_reference.csv.gz")
    energies = json.loads((folder / "timeloop_ert_values.json").read_text(encoding="utf-8"))
    kinds = dict.fromkeys((row["l0_entries"], row["config"]) for row in rows)
    for entries, config in sorted(kinds, key=lambda kind: int(kind[0])):
        of_kind = [row for row in rows if (row["l0_entries"], row["config"]) == (entries, config)]
        machine = _gemmini(of_kind[0], energies[config])
        yield _gather(machine, [_gemmini_case(machine, row) for row in of_kind])


def _gemmini(row: Row, pj: Mapping[str, float]) -> Machine:
    """The machine of a row, with Timeloop's energies and rates; a spilled sum is one word, as Timeloop counts it."""
    side, entries = int(row["pe_dim"]), int(row["l0_entries"])
    l1_bytes, l2_bytes = int(row["l1_bytes"]), int(row["l2_bytes"])
    return Machine(
        name=f"gemmini-{row['config'].lower()}" + (f"-r{entries}" if entries > 1 else ""),
        nodes=(
            Memory("DRAM", "WIO", pj["L3"], pj["L3"], words_per_cycle=8),
            Memory("scratchpad", "WI", pj["L2_read"], pj["L2_write"], bytes=l2_bytes, words_per_cycle=2 * side),
            Axis("cols", side, "KG"),
            Memory("accumulator", "O", pj["L1_read"], pj["L1_write"], l1_bytes // side, 32, words_per_cycle=2),
            Axis("rows", side, "C"),
            Memory("registers", "W", pj["L0"], pj["L0"], bytes=entries),
        ),
        mac_pj=pj["MAC"],
        bits=Bits(spilled=8),
    )


def _gemmini_case(machine: Machine, row: Row) -> Case:
    depthwise = row["shape"] == "dw"

    def dims(column: str) -> Dims:
        """Eight dims from a column for each of Timeloop's seven: a depthwise layer's K is our G."""
        seven = {dim: int(row[column.format(dim)]) for dim in "NKCPQRS" if column.format(dim) in row}
        return Dims(**{"G" if depthwise and dim == "K" else dim: size for dim, size in seven.items()})

    factors = {name: dims(f"T{level}_{{}}") for level, name in enumerate(_LEVELS)}
    unrolled = dims("spatial_{}")
    # The dim that Timeloop does not know makes one trip, wherever it stands.
    orders = {name: row[f"perm_L{level}_inner_to_outer"][::-1] for level, name in enumerate(_LEVELS)}
    orders = {name: order.replace("K", "G") + "K" if depthwise else order + "G" for name, order in orders.items()}
    counts = {f"M{3 - int(name[1])}{name[2:]}": name for name in row if name.endswith(("_reads", "_fills", "_updates"))}
    cycles = {f"M{k}_cycles": f"cycles_L{3 - k}" for k in range(4)}
    others = {"used_macs": "pes_used", "energy_pj": "energy_total_pJ"}
    others |= {name: name for name in ("cycles_compute", "cycles_total")}
    return Case(
        layer=_layer(row, dims("{}")),
        mapping=LayerMapping.of(
            machine, {**factors, "cols": unrolled._replace(C=1), "rows": Dims(C=unrolled.C)}, orders
        ),
        of=row["layer"],
        mode=EXTRAPOLATED,
        flagged=False,
        numbers={ours: float(row[theirs]) for ours, theirs in (counts | _TILES | cycles | others).items()},
    )
