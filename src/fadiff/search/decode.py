"""From relaxed proposals to groups: sigma decides what runs together, the layers' shared trips how it is tiled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fadiff.search.groups import Plan, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.search.gradient import Proposals
    from fadiff.workload import Workload

Planned = TypeVar("Planned")


def decode_groups(workload: Workload, hardware: Hardware, proposals: Proposals, restart: int) -> list[Plan]:
    """Plans of the groups that a restart proposes, repaired until they are legal.

    Edges with sigma of at least 1/2 are fused. A run of layers that cannot be a group, or whose buffers fit with no
    trip counts, is split at its weakest place, again and again; trip counts are the legal ones nearest to the mean of
    what its layers propose.
    """
    names = workload.topological
    number = {layer.name: i for i, layer in enumerate(workload.layers)}
    log_trips = np.log(proposals.trips[restart])

    def plan_of(start: int, stop: int) -> Plan | None:
        members = names[start:stop]
        wanted = np.mean([log_trips[:4, number[name]] for name in members], axis=0)
        return Run(workload, members).nearest_plan(hardware, wanted)

    return split(bonds(workload, proposals.sigma[restart]), plan_of)


def split(bond: NDArray[np.float64], plan_of: Callable[[int, int], Planned | None]) -> list[Planned]:
    """Plans of runs of layers: those whose cut points hold, split at the weakest until `plan_of` has a plan for each.

    `plan_of` is given the first layer of a run and the one after its last, in topological order.
    """
    plans: list[Planned] = []
    runs = _runs(bond)
    while runs:
        start, stop = runs.pop()
        if stop - start < 2:
            continue
        plan = plan_of(start, stop)
        if plan is not None:
            plans.append(plan)
        else:
            weakest = start + 1 + int(bond[start : stop - 1].argmin())
            runs += [(start, weakest), (weakest, stop)]
    return plans


def bonds(workload: Workload, sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """``[..., layers - 1]`` for each cut point between neighbours, the strongest edge (of `sigma`) that crosses it."""
    bond = np.zeros((*sigma.shape[:-1], len(workload.layers) - 1))
    for i, edge in enumerate(workload.edges):
        crossed = slice(workload.depth[edge.source], workload.depth[edge.target])
        bond[..., crossed] = np.maximum(bond[..., crossed], sigma[..., i, None])
    return bond


def _runs(bond: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Maximal runs of layers whose cut points all hold."""
    cuts = [0, *(int(i) + 1 for i in np.flatnonzero(bond < 0.5)), bond.size + 1]
    return list(pairwise(cuts))
