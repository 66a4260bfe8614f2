"""A bound above a legal schedule is a bug of the first order: random schedules, on machines that just hold them."""

from random import Random

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule.arrays import pack_schedule
from fadiff.search.solver import layer_bound
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.closing import Lanes
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import places
from search.solver.tight import tight

KINDS = ("single", "image_lanes", "chain", "residual", "concatenation", "weight_port", "channel_loop", "unfusible")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_layer_of_a_random_schedule_is_below_its_bound(kind, seed, monkeypatch):
    schedule = tight(kind, 50_000 + seed)
    factors = np.asarray(pack_schedule(schedule).mapping.factors).copy()
    factors[list(schedule.machine.structure.memories)] = 1
    cost, rng = evaluate(schedule), Random(seed)
    for i, layer in enumerate(schedule.workload.layers):
        share = rng.random()
        weights = share / cost.layer_energy_pj[i], (1 - share) / cost.layer_cycles[i]
        possible = places(schedule.workload, layer, schedule.machine)
        if not layer.is_mac:
            assert AddBound(layer, schedule.machine, possible).at(weights) <= 1 + 1e-9
            continue
        # Only the lanes that the mapping has: the hardest test of the bound there is.
        lanes = Lanes(factors[:, :, i], factors[:, :, i])
        monkeypatch.setattr(layer_bound, "all_lanes", lambda *_, lanes=lanes: lanes)
        assert LayerBound(layer, schedule.machine, possible).at(weights, passes=10) <= 1 + 1e-9
