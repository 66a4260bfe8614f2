"""Plans of sweeps: networks x machines x methods x objectives x seeds, as a file or as plain values.

.. code-block:: yaml

    networks: [resnet18, mobilenet_v1:size=96]
    machines:
      - gemmini-small
      - {base: gemmini-large, set: {scratchpad.bytes: [128 KB, 256 KB], cols.size: [16, 32]}}
    methods: [exact]
    seeds: [0, 1]
    budget: 30s
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from fadiff.errors import FadiffError
from fadiff.file_kinds import PLAN, read_data
from fadiff.files import FileError, Strict, keys_of, misspelt, validate
from fadiff.hardware import load_machine, machine_to_json, pack_machine
from fadiff.hardware.quantities import bytes_with_unit
from fadiff.hardware.variants import grid, read_variant, variant_name
from fadiff.search.driver import MOST_SEED
from fadiff.search.objective import Objective
from fadiff.search.optimize import PROVEN_METHODS, find_method, parse_duration
from fadiff.workload import load_model
from fadiff.workload.file import workload_to_json

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Workload

Values = tuple[tuple[str, object], ...]
"""What a grid sets: keys and numbers, or text where it is none."""


def _listed(value: object) -> object:
    """One value stands for a list of it."""
    return cast("object", value) if isinstance(value, list) else [value]


def _each_once(values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError("nothing is listed: name at least one")
    again = next((value for i, value in enumerate(values) if value in values[:i]), None)
    if again is not None:
        raise ValueError(f"{again!r} is listed twice: list it once")
    return values


def _duration(value: object) -> object:
    """A text; a number says no unit."""
    if not isinstance(value, str):
        raise ValueError("write one duration with its unit, such as 30s")
    return value


def _plain_values(value: object) -> object:
    """Values of a grid are numbers or texts."""
    if isinstance(value, list) and all(isinstance(one, int | float | str) for one in cast("list[object]", value)):
        return cast("object", value)
    raise ValueError("list the values, numbers or texts, such as [64 KB, 128 KB]")


_Axis = (BeforeValidator(_listed), AfterValidator(_each_once))


class GridModel(Strict):
    """All combinations of values of a machine: keys of its file, or nodes and their keys, each with a list."""

    base: str
    set: Annotated[
        dict[
            str,
            Annotated[
                list[int | float | str],
                BeforeValidator(_plain_values),
                BeforeValidator(_listed),
                AfterValidator(_each_once),
            ],
        ],
        Field(min_length=1),
    ]


def _name_or_grid(data: object) -> str | GridModel:
    return data if isinstance(data, str) else GridModel.model_validate(data)


class PlanModel(Strict):
    """A plan as a file says it."""

    networks: Annotated[list[str], *_Axis]
    machines: Annotated[list[Annotated[str | GridModel, PlainValidator(_name_or_grid)]], *_Axis]
    methods: Annotated[list[str], *_Axis] = Field(default=["exact"])
    objectives: Annotated[list[str], *_Axis] = Field(default=["edp"])
    seeds: Annotated[list[Annotated[int, Field(ge=0, le=MOST_SEED)]], *_Axis] = Field(default=[0])
    budget: Annotated[str, BeforeValidator(_duration)] = "60s"
    bound: bool = False
    alone: bool = False

    @property
    def cells(self) -> int:
        """How many searches it lists."""
        machines = (1 if isinstance(one, str) else prod(map(len, one.set.values())) for one in self.machines)
        return sum(machines) * prod(map(len, (self.networks, self.methods, self.objectives, self.seeds)))


MOST_CELLS = 20_000
MOST_PUPILS = 25
"""Cells that learn from one, with itself, at most: a pioneer far away teaches less, and each takes a whole search."""
KEY = ("network", "machine", "method", "objective", "seed", "budget_s")
"""Columns that tell cells apart."""


@dataclass(frozen=True)
class Cell:
    """One search: what the plan says, and what it stands for."""

    network: str
    machine: str
    method: str
    objective: str
    seed: int
    budget_s: float
    bound: bool
    fingerprint: str
    """Of all that decides what is found: where a file has changed, the cell is another one."""
    values: Values = field(compare=False)
    workload: Workload = field(compare=False, repr=False)
    hardware: Machine = field(compare=False, repr=False)
    pioneer: Cell | None = field(compare=False, repr=False, default=None)
    """The cell of a machine alike that is searched first, and that this one learns from; it may be this one itself."""

    def __str__(self) -> str:
        told = f"{self.network} on {self.machine}, {self.method}"
        return told + (f", {self.objective}" if self.objective != "edp" else "") + f", seed {self.seed}"

    @property
    def kin(self) -> Hashable:
        """Cells of one kin share compiled programs."""
        return self.network, self.hardware.structure, self.method

    @property
    def lesson(self) -> Hashable:
        """Cells of one lesson learn from the same pioneer."""
        return self if self.pioneer is None else self.pioneer

    @property
    def stem(self) -> str:
        """A name for its file, the same for the same cell, and no other's."""
        named = [self.network, self.machine, self.method, self.objective, str(self.seed)]
        short = (name.rpartition("/")[2] for name in named)
        plain = "_".join("".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name) for name in short)
        return f"{plain[:100]}_{_digest([*named, repr(self.budget_s)])[:6]}"


def read_plan(plan: Path | str | Mapping[str, Any]) -> list[Cell]:
    """The cells of a plan, those of one network and machine together; everything in it is checked.

    >>> cells = read_plan({"networks": "resnet18", "machines": {"base": "gemmini-large", "set": {"l2": ["64 KB"]}}})
    >>> [str(cell) for cell in cells]
    ['resnet18 on gemmini-large:l2=64KB, exact, seed 0']
    """
    origin = "the plan" if isinstance(plan, Mapping) else str(plan)
    data: object = plan if isinstance(plan, Mapping) else read_data(Path(plan), PLAN)
    said = validate(PlanModel, data, origin, _about_unknown)
    if (count := said.cells) > MOST_CELLS:
        raise FileError(f"{origin}: it has {count:,} cells: {MOST_CELLS:,} can be in a plan, so part it or list less")
    try:
        for method in said.methods:
            find_method(method)
        for objective in said.objectives:
            Objective.of(objective)
        budget_s = parse_duration(said.budget)
        networks = {name: load_model(name) for name in said.networks}
        machines = list(_machines(said))
        _each_once([name for name, _, _ in machines])
    except (FadiffError, ValueError) as error:
        raise FileError(f"{origin}: {error}") from None
    shapes = {name: _digest(workload_to_json(network)) for name, network in networks.items()}
    chips = {name: _digest(machine_to_json(machine)) for name, _, machine in machines}
    how = [said.bound, "alone"] if said.alone else [said.bound]
    cells = [
        Cell(
            network, machine, method, objective, seed, budget_s, said.bound,
            _digest([shapes[network], chips[machine], *how])[:12], values, workload, hardware,
        )
        for (network, workload), (machine, values, hardware), method, objective, seed in product(
            networks.items(), machines, said.methods, said.objectives, said.seeds
        )
    ]  # fmt: skip
    return cells if said.alone else taught(cells)


def taught(cells: Sequence[Cell]) -> list[Cell]:
    """Cells with their pioneers: of machines alike, so many at a time in the order of the plan, the most central one.

    So what a cell learns depends on the plan alone, and not on who searches it, or when.
    """
    families: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        alike = cell.network, cell.method, cell.objective, cell.seed, cell.hardware.kind
        families.setdefault(alike if cell.method in PROVEN_METHODS else cell, []).append(cell)
    pioneers: dict[Cell, Cell] = {}
    for family in families.values():
        count = -(-len(family) // MOST_PUPILS)
        ends = [len(family) * i // count for i in range(count + 1)]
        for start, stop in pairwise(ends):
            if stop - start > 1:
                pioneers |= dict.fromkeys(family[start:stop], _central(family[start:stop]))
    return [replace(cell, pioneer=pioneers.get(cell)) for cell in cells]


def _central(cells: Sequence[Cell]) -> Cell:
    """The cell whose machine has the numbers nearest to those of all others, a factor being as far up as down; of some
    the last."""
    numbers = [np.concatenate([np.ravel(part) for part in pack_machine(cell.hardware)]) for cell in cells]
    with np.errstate(divide="ignore"):
        # What is not limited, or free, is so on all of them.
        sizes = np.nan_to_num(np.log(np.array(numbers, dtype=float)), posinf=0.0, neginf=0.0)
    away = np.abs(sizes - np.median(sizes, axis=0)).sum(axis=1).round(9)
    return cells[int(np.flatnonzero(away == away.min())[-1])]


def _machines(said: PlanModel) -> Iterator[tuple[str, Values, Machine]]:
    """Machines with their names, and with what a grid sets in them."""
    for one in said.machines:
        if isinstance(one, str):
            yield one, (), load_machine(one)
            continue
        for values in grid(one.set):
            numbers = tuple((key, _number(value)) for key, value in values.items())
            yield variant_name(one.base, values), numbers, read_variant(one.base, values).machine


def _number(value: object) -> object:
    """A capacity in bytes, anything else as it is: a table is for calculating with."""
    try:
        return bytes_with_unit(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _about_unknown(key: str) -> str:
    close = get_close_matches(key, keys_of(PlanModel), n=1)
    return f"this key is unknown (did you mean {close[0]}?): correct it" if close else misspelt(key)


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
