"""From relaxed proposals to groups: sigma decides what runs together, the layers' shared trips how it is tiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.exact.plans import Plan, Run, bonds, split

if TYPE_CHECKING:
    from fadiff.search.exact.conditions import Task
    from fadiff.search.gradient.descent import Proposals


def decode_groups(task: Task, proposals: Proposals, restart: int) -> list[Plan]:
    """Plans of the groups that a restart proposes, repaired until they are legal.

    Edges with sigma of at least 1/2 are fused. A run of layers that cannot be a group, or whose buffers fit with no
    trip counts, is split; trip counts are the legal ones nearest to the mean of what its layers propose.
    """
    names, log_trips = task.workload.topological, np.log(proposals.trips[restart])

    def planned(start: int, stop: int) -> Plan | None:
        members = names[start:stop]
        wanted = log_trips[:, [task.number[name] for name in members]].mean(axis=1)
        return Run(task, members).nearest_plan(wanted.tolist())

    return list(split(bonds(task.workload, proposals.sigma[restart]), 0.5, planned))
