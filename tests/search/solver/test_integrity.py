"""A bound above a legal schedule is a bug of the first order: random schedules, on machines that just hold them."""

from itertools import islice
from random import Random

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule.arrays import pack_schedule
from fadiff.search.solver import layer_bound, place
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.closing import Lanes
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.network_bound import Prover
from fadiff.search.solver.place import Links, places
from fadiff.search.solver.region import weighed
from search.solver.tight import tight

KINDS = ("single", "image_lanes", "chain", "residual", "concatenation", "weight_port", "channel_loop", "unfusible")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_layer_of_a_random_schedule_is_below_its_bound(kind, seed, monkeypatch):
    schedule = tight(kind, 50_000 + seed)
    factors = np.asarray(pack_schedule(schedule).mapping.factors).copy()
    factors[list(schedule.machine.structure.memories)] = 1
    cost, rng = evaluate(schedule), Random(seed)
    links = Links(schedule.workload, schedule.machine)
    for i, layer in enumerate(schedule.workload.layers):
        share = rng.random()
        weights = share / cost.layer_energy_pj[i], (1 - share) / cost.layer_cycles[i]
        possible = tuple(place for _, place in places(links, layer))
        if not layer.is_mac:
            assert AddBound(layer, schedule.machine, possible).at(weights) <= 1 + 1e-9
            continue
        # Only the lanes that the mapping has: the hardest test of the bound there is.
        lanes = Lanes(factors[:, :, i], factors[:, :, i])
        monkeypatch.setattr(layer_bound, "all_lanes", lambda *_, lanes=lanes: lanes)
        assert LayerBound(layer, schedule.machine, possible).at(weights, passes=10) <= 1 + 1e-9


@pytest.mark.parametrize("ties", [place.MOST_TIES, 1])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("single", "image_lanes")])
def test_no_random_schedule_is_below_a_line_of_its_network(kind, seed, ties, monkeypatch):
    monkeypatch.setattr(place, "MOST_TIES", ties)
    schedule = tight(kind, 60_000 + seed)
    cost = evaluate(schedule)
    # Whatever the schedule costs, so that a line may come to lie above it.
    monkeypatch.setattr(Prover, "_loss", lambda *_: 1.0)
    for exact in (False, True) if schedule.exact_factors else (False,):
        prover = Prover(cost, exact_factors=exact)
        for _ in islice(prover.run(float("inf")), 6):
            for weights, line in prover.lines.items():
                assert line.value <= weighed((cost.energy_pj, cost.cycles), weights) * (1 + 1e-9)
