"""Decoding: sigma says what runs together, layers how it is tiled, and plans are legal whatever they say."""

import numpy as np

from fadiff.schedule.tiling import group_tiling, inner_edges
from fadiff.search.exact.conditions import Task
from fadiff.search.gradient import Proposals
from fadiff.search.gradient.descent import decode_groups
from search.gradient.toys import ROOMY, chain, residual
from search.networks import sized


def proposed(workload, sigma, rows=1):
    """One restart that wants so many shared trips over rows in every layer."""
    trips = np.ones((1, 4, len(workload.layers)), dtype=np.int64)
    trips[:, 2] = rows
    nothing = np.zeros(1)
    return Proposals(np.ones((1, 1)), np.ones((1, 1)), trips, np.array([sigma], dtype=float), nothing, nothing)


def decoded(workload, machine, sigma, rows=1):
    plans = decode_groups(Task(workload, machine), proposed(workload, sigma, rows), 0)
    return {"".join(plan.group.layers): plan for plan in plans}


def test_edges_of_at_least_a_half_are_fused():
    assert decoded(chain(), ROOMY, [0.0, 0.49, 0.2, 0.3]) == {}
    assert set(decoded(chain(), ROOMY, [0.5, 0.49, 1.0, 0.9])) == {"ab", "cde"}
    # The shortcut from a to s holds together what lies between.
    edges = {(edge.source, edge.target): i for i, edge in enumerate(residual().edges)}
    assert set(decoded(residual(), ROOMY, np.eye(len(edges))[edges["a", "s"]])) == {"abs"}


def test_trips_are_the_legal_ones_nearest_to_what_layers_propose():
    for wanted, nearest in ((1, 1), (2, 2), (4, 4), (7, 8), (100, 8)):
        trips = decoded(chain(), ROOMY, [1, 1, 1, 1], wanted)["abcde"].group.trips
        assert nearest == trips.P


def test_runs_whose_buffers_do_not_fit_are_tiled_or_split_where_sigma_is_lowest():
    sigma = [0.9, 0.6, 0.8, 0.9]
    for scratchpad in (16, 40, 80, 200):
        plans = decoded(chain(), sized(ROOMY, scratchpad=scratchpad), sigma)
        names = [name for plan in plans.values() for name in plan.group.layers]
        assert len(names) == len(set(names))
        for plan in plans.values():
            assert max(plan.live_bytes) <= scratchpad
            layers, trips = plan.group.layers, np.array(plan.group.trips)[:, None]
            assert group_tiling(chain(), layers, inner_edges(chain(), layers), trips).aligned.all()
    assert set(decoded(chain(), sized(ROOMY, scratchpad=80), sigma)) == {"ab", "cde"}
