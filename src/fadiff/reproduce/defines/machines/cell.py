"""One network on one of DeFiNES' machines: our schedules of least energy, free or of the form that DeFiNES ran.

All come from one exact search, whose mappings they share: every layer on its own; whole maps, kept on chip where that
pays; DeFiNES' stacks in each of its tiles; and any groups in any tiles, as far as the budget goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.evaluate import Evaluation, evaluate
from fadiff.hardware import load_machine
from fadiff.reproduce.defines.machines.network import stacks, to_workload
from fadiff.reproduce.defines.machines.reference import BEST, SINGLE, TILED, WHOLE, read_reference
from fadiff.schedule import Group, Trips
from fadiff.search import clock
from fadiff.search.driver import Incumbent, Settings, Status, search
from fadiff.search.exact.assemble import to_schedule
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.cuts import Cuts
from fadiff.search.exact.method import ExactSearch
from fadiff.search.exact.plans import Members, Plan, plan_for
from fadiff.search.objective import ENERGY
from fadiff.search.programs import search_programs

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule import Schedule
    from fadiff.sweeps.rows import Row
    from fadiff.workload import Workload

STARTS = 16
"""Mappings that each layer climbs from when it is taken on its own."""
Tile = tuple[int, int]
"""Columns and rows of the last map."""
Found = dict[tuple[str, Tile | None], Evaluation]
"""By kind and, where it is DeFiNES' own, tile."""


class Cell(NamedTuple):
    """A network on a machine, and the seconds that the free search may take."""

    machine: str
    workload: str
    budget_s: float

    def __str__(self) -> str:
        return f"{self.workload} on {self.machine}"


def cell_rows(cell: Cell) -> list[Row]:
    """Every kind of schedule of a cell, in the columns of DeFiNES' table; those that do not fit are left out."""
    reference = read_reference()
    rows = [row for row in reference.rows if (row.machine, row.workload) == (cell.machine, cell.workload)]
    tiles = dict.fromkeys(row.tile for row in rows if row.overlap_mode == "fully_cached" and row.tile is not None)
    workload = to_workload(cell.workload, reference.networks[cell.workload])
    found, stopped = least_energies(workload, load_machine(cell.machine), list(tiles), cell.budget_s)
    return [
        {
            **cell._asdict(),
            "schedule": kind,
            "overlap_mode": "none" if kind in (SINGLE, WHOLE) else "fully_cached",
            "tile_ox": tile and tile[0],
            "tile_oy": tile and tile[1],
            **_numbers(one),
            "stopped": stopped,
        }
        for (kind, tile), one in found.items()
    ]


def least_energies(workload: Workload, machine: Machine, tiles: Sequence[Tile], budget_s: float) -> tuple[Found, str]:
    """The schedules of least energy of every kind, and what ended the free search: it was done, or out of time."""
    found: Found = {}

    def method(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
        task = Task(workload, machine)
        exact = ExactSearch(task, settings, incumbent)
        members = stacks(workload, machine)

        def among(plans: Sequence[Plan], kind: str, tile: Tile | None = None) -> Iterator[Status]:
            exact.cuts = Cuts(task, [*exact.singles, *plans])
            yield from exact.fuse(kind)
            found[kind, tile] = evaluate(to_schedule(task, exact.groups))

        yield from exact.map(STARTS, polished=False)
        found[SINGLE, None] = incumbent.unfused or exact.best
        exact.enumerate_plans()
        every = exact.cuts.plans[len(exact.singles) :]
        yield from among([plan for plan in every if plan.group.iterations == 1], WHOLE)
        for tile in tiles:
            wanted = [plan_for(task, tiled(workload, layers, tile)) for layers in members]
            fitting = [plan for plan in wanted if plan is not None]
            if len(fitting) == len(wanted):
                yield from among(fitting, TILED, tile)
        task.deadline = clock.monotonic() + budget_s
        runs = [Members(task, layers) for layers in members if len(layers) > 1 and task.fusing is not None]
        yield from among([run.plan(sharing) for run in runs for sharing in run.chosen()], BEST)
        yield from among(every, BEST)

    with search_programs():
        result = search(workload, machine, method, Settings(objective=ENERGY))
    if result.stopped == "interrupt":
        raise KeyboardInterrupt
    return found | {(BEST, None): result.best}, result.stopped


def tiled(workload: Workload, layers: tuple[str, ...], tile: Tile) -> Group:
    """A stack in as many tiles as DeFiNES cuts its last map into; trip counts may make them a little smaller."""
    dims = workload[layers[-1]].dims
    return Group(layers, Trips(P=-(-dims.P // tile[1]), Q=-(-dims.Q // tile[0])) if len(layers) > 1 else Trips())


def _numbers(found: Evaluation) -> dict[str, object]:
    flows = list(zip(found.flows, found.words @ found.repeat, strict=True))

    def dram_bytes(tensor: str, action: str) -> float:
        mine = [words for flow, words in flows if (flow.memory, flow.tensor, flow.action) == (0, tensor, action)]
        return float(sum(mine)) * found.schedule.machine.memories[0].word_bits / 8

    spent = found.energy_by_node_pj()
    return {
        "groups": told_groups(found.schedule),
        "energy_pJ": found.energy_pj,
        "latency_cycles": found.cycles,
        "dram_rd_I_B": dram_bytes("I", "read"),
        "dram_rd_W_B": dram_bytes("W", "read"),
        "dram_wr_O_B": dram_bytes("O", "write"),
        "energy_mac_pJ": spent.pop("mac"),
        "energy_by_memory_pJ": ";".join(f"{name}={energy:.0f}" for name, energy in spent.items()),
    }


def told_groups(schedule: Schedule) -> str:
    """Groups of several layers, each with the tile of its last map: ``l0-l7 60x68``."""
    parts: list[str] = []
    for group in schedule.groups:
        if len(group.layers) > 1:
            dims, trips = schedule.workload[group.layers[-1]].dims, group.trips
            tile = f"{-(-dims.Q // trips.Q)}x{-(-dims.P // trips.P)}"
            parts.append(f"{group.layers[0]}-{group.layers[-1]} {tile}")
    return "; ".join(parts)
