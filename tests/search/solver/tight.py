"""Schedules on machines that hold exactly what they need: where a bound is wrong, it is likely to show there."""

from dataclasses import replace
from math import ceil

import numpy as np

from fadiff.hardware import Memory
from fadiff.schedule import Schedule
from fadiff.schedule.rules import Examined
from oracle.schedules import draw


def tight(kind: str, seed: int) -> Schedule:
    """A random schedule on a machine whose memories are as small as it lets them be."""
    found = draw(kind, seed)
    total = Examined(found).needs.total
    nodes = [
        replace(node, bytes=max(1, ceil(np.max(np.asarray(total[i])))), double_buffered=False)
        if i in total and isinstance(node, Memory)
        else node
        for i, node in enumerate(found.machine.nodes)
    ]
    return replace(found, machine=replace(found.machine, nodes=tuple(nodes)))
