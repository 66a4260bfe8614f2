"""Compile what proofs need before the first one asks: ``python -m fadiff.search.solver``, where an image is built."""

from __future__ import annotations

import numpy as np

from fadiff.hardware import load_machine
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.parts import row_of
from fadiff.search.solver.place import Links, places
from fadiff.workload import load_model

WEIGHTS = (1.0, 300.0)
"""Of a pJ and of a cycle."""
WALKS = 40


def main() -> None:
    """Prove something of one layer, in every place that it may have."""
    workload, machine = load_model("resnet18"), load_machine("gemmini-small")
    layer = workload["l1.0.conv2"]
    bound = LayerBound(layer, machine, tuple(place for _, place in places(Links(workload, machine), layer)))
    bound.at(WEIGHTS, passes=WALKS)
    part = bound.known(WEIGHTS).parts[0]
    bound.least(WEIGHTS, np.array([row_of((part.place, part.tile))], dtype=np.float64))
    bound.within(WEIGHTS, (part.place, part.tile), bound.places[part.place])


if __name__ == "__main__":
    main()
