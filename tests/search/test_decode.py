"""From relaxed proposals to groups: sigma says what runs together, and what is illegal is split where it is weakest."""

import numpy as np
import pytest

from fadiff.search.decode import decode_groups
from fadiff.search.gradient import Proposals
from search.networks import NETWORKS, group, mac, machine, network

BROAD = machine(l2_bytes=1 << 20)
CHAIN = network(mac("a", "K4 C2 P4 Q4"), mac("b", "K4 C4 P4 Q4", "a"), mac("c", "K4 C4 P4 Q4", "b"))
FORK = network(mac("a", "N4 K4 C2"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "a"))


def decoded(workload, sigma, trips=None, hardware=BROAD, restart=0):
    """Groups that one restart proposes; `sigma` by edge, trip counts (N, P, Q) by layer."""
    wanted = np.ones((1, 5, len(workload.layers)))
    for name, counts in (trips or {}).items():
        wanted[0, 1:4, [layer.name for layer in workload.layers].index(name)] = counts
    strengths = [sigma[f"{edge.source} {edge.target}"] for edge in workload.edges]
    proposals = Proposals(None, np.repeat(wanted, 2, axis=0), None, np.array([strengths] * 2), *[None] * 4)
    plans = decode_groups(workload, hardware, proposals, restart)
    return sorted((plan.group for plan in plans), key=lambda one: workload.depth[one.layers[0]])


def test_edges_with_sigma_of_a_half_or_more_are_fused():
    assert decoded(CHAIN, {"a b": 0.9, "b c": 0.5}) == [group("a b c")]
    assert decoded(CHAIN, {"a b": 0.9, "b c": 0.49}) == [group("a b")]
    assert decoded(CHAIN, {"a b": 0.1, "b c": 0.8}) == [group("b c")]
    assert decoded(CHAIN, {"a b": 0.1, "b c": 0.2}) == []


def test_an_edge_holds_together_all_that_it_spans():
    block = NETWORKS["residual"]
    assert decoded(block, {"a b": 0.1, "b s": 0.1, "a s": 0.9, "s c": 0.1}) == [group("a b s")]
    assert decoded(block, {"a b": 0.9, "b s": 0.1, "a s": 0.1, "s c": 0.9}) == [group("a b"), group("s c")]


def test_every_restart_has_its_own_groups():
    proposals = Proposals(None, np.ones((2, 5, 3)), None, np.array([[0.9, 0.1], [0.1, 0.9]]), *[None] * 4)
    assert [decode_groups(CHAIN, BROAD, proposals, i)[0].group for i in (0, 1)] == [group("a b"), group("b c")]


@pytest.mark.parametrize(("sigma", "expected"), [(0.9, [group("a b")]), (0.6, [group("a b")])])
def test_layers_without_a_common_sink_are_split_at_the_weakest_place(sigma, expected):
    assert decoded(FORK, {"a b": 0.95, "a c": sigma}) == expected


def test_a_group_too_large_for_l2_is_split_at_its_weakest_edge():
    """Transposed, it cannot be tiled; two buffers of 40 bytes live at the same time."""
    wide = network(mac("a", "N5 K8 C1"), mac("b", "N5 K8 C8", "a", epilogue=("transpose",)), mac("c", "N5 K8 C8", "b"))
    assert decoded(wide, {"a b": 0.9, "b c": 0.7}, hardware=machine(l2_bytes=80)) == [group("a b c")]
    assert decoded(wide, {"a b": 0.9, "b c": 0.7}, hardware=machine(l2_bytes=79)) == [group("a b")]
    assert decoded(wide, {"a b": 0.7, "b c": 0.9}, hardware=machine(l2_bytes=79)) == [group("b c")]
    assert decoded(wide, {"a b": 0.7, "b c": 0.9}, hardware=machine(l2_bytes=39)) == []


def test_trip_counts_are_the_legal_ones_nearest_to_the_mean_of_the_layers():
    fused = {"a b": 1, "b c": 1}
    same = dict.fromkeys("abc", (1, 4, 2))
    assert decoded(CHAIN, fused, same) == [group("a b c", "P4 Q2")]
    assert decoded(CHAIN, fused, {"a": (1, 4, 1), "b": (1, 4, 1), "c": (1, 1, 1)}) == [group("a b c", "P2")]
    assert decoded(CHAIN, fused, {**same, "c": (1, 8, 4)}) == [group("a b c", "P4 Q2")]


def test_trip_counts_are_raised_until_the_buffers_fit():
    fused = {"a b": 1, "b c": 1}
    (whole,) = decoded(CHAIN, fused, hardware=machine(l2_bytes=128))
    (tiled,) = decoded(CHAIN, fused, hardware=machine(l2_bytes=127))
    assert whole == group("a b c")
    assert tiled in (group("a b c", "P2"), group("a b c", "Q2"))


def test_a_network_of_one_layer_has_no_groups():
    assert decoded(network(mac("a", "N4 K4 C2")), {}) == []
