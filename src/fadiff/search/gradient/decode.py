"""From relaxed proposals to groups: sigma decides what runs together, the layers' shared trips how it is tiled."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.exact.plans import Plan, Run

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.search.exact.conditions import Task
    from fadiff.search.gradient.descent import Proposals
    from fadiff.workload import Workload


def decode_groups(task: Task, proposals: Proposals, restart: int) -> list[Plan]:
    """Plans of the groups that a restart proposes, repaired until they are legal.

    Edges with sigma of at least 1/2 are fused. A run of layers that cannot be a group, or whose buffers fit with no
    trip counts, is split at its weakest place, again and again; trip counts are the legal ones nearest to the mean of
    what its layers propose.
    """
    names, log_trips = task.workload.topological, np.log(proposals.trips[restart])
    bond = bonds(task.workload, proposals.sigma[restart])
    runs = list(pairwise([0, *(int(i) + 1 for i in np.flatnonzero(bond < 0.5)), len(names)]))
    plans: list[Plan] = []
    while runs:
        start, stop = runs.pop()
        if stop - start < 2:
            continue
        members = names[start:stop]
        wanted = log_trips[:, [task.number[name] for name in members]].mean(axis=1)
        plan = Run(task, members).nearest_plan(wanted.tolist())
        if plan is not None:
            plans.append(plan)
        else:
            weakest = start + 1 + int(bond[start : stop - 1].argmin())
            runs += [(start, weakest), (weakest, stop)]
    return plans


def bonds(workload: Workload, sigma: Float[np.ndarray, " edges"]) -> Float[np.ndarray, " cut_points"]:
    """For each cut point between neighbours in topological order, the strongest edge that crosses it."""
    bond = np.zeros(len(workload.layers) - 1)
    for edge, strength in zip(workload.edges, sigma, strict=True):
        crossed = slice(workload.depth[edge.source], workload.depth[edge.target])
        bond[crossed] = np.maximum(bond[crossed], strength)
    return bond
