"""Tensors that must go through DRAM: whatever the search does, it never keeps one on chip."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fadiff.report.agreement import verify
from fadiff.schedule.legality import violations
from fadiff.search.decode import decode_groups
from fadiff.search.driver import Settings, search
from fadiff.search.gradient import Proposals
from fadiff.search.greedy import greedy
from fadiff.search.joint import JointOptions, joint
from fadiff.workload import Workload
from search.networks import NETWORKS, machine

CHIP = machine(l2_bytes=1 << 14, l1_bytes=1 << 12)


@st.composite
def networks(draw):
    """A small network, some of whose edges cannot be fused."""
    workload = NETWORKS[draw(st.sampled_from(sorted(NETWORKS)))]
    count = len(workload.edges)
    barred = iter(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    layers = [
        replace(
            layer, inputs=tuple(o if o.source is None else replace(o, fusible=not next(barred)) for o in layer.inputs)
        )
        for layer in workload.layers
    ]
    return Workload("barred", tuple(layers))


def assert_none_is_fused(schedule):
    assert violations(schedule) == []
    assert all(edge.fusible for edge in schedule.fused_edges)
    assert verify(schedule).holds


@settings(max_examples=10)
@given(networks())
def test_no_method_fuses_what_cannot_be_fused(workload):
    result = search(workload, CHIP, partial(joint, options=JointOptions(descent=None)), Settings())
    event(f"{len(result.schedule.fused_edges)} edges fused of {len(workload.edges)}")
    assert_none_is_fused(result.schedule)
    assert_none_is_fused(greedy(workload, CHIP))
    assert result.best.edp_uj_cycles <= result.unfused.edp_uj_cycles


@settings(max_examples=100)
@given(networks(), st.integers(0, 2**31))
def test_no_proposal_is_decoded_into_a_group_around_such_a_tensor(workload, seed):
    """Not even one that fuses it."""
    sigma = np.random.default_rng(seed).random((1, len(workload.edges)))
    proposals = Proposals(None, np.ones((1, 5, len(workload.layers))), None, sigma, *[None] * 4)
    for plan in decode_groups(workload, CHIP, proposals, 0):
        inside = [e for e in workload.edges if {e.source, e.target} <= set(plan.group.layers)]
        assert inside
        assert all(edge.fusible for edge in inside)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_without_fusible_edges_costs_what_its_layers_cost_alone(name):
    workload = NETWORKS[name]
    layers = [
        replace(layer, inputs=tuple(o if o.source is None else replace(o, fusible=False) for o in layer.inputs))
        for layer in workload.layers
    ]
    apart = Workload("apart", tuple(layers))
    options = partial(joint, options=JointOptions(descent=None, fuse=False))
    alone = search(workload, CHIP, options, Settings()).best
    found = search(apart, CHIP, partial(joint, options=JointOptions(descent=None)), Settings()).best
    assert found.edp_uj_cycles == alone.edp_uj_cycles
