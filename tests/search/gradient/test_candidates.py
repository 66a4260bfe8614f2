"""The integers to choose among: each covers its dim and none is idle, on any machine."""

from itertools import product
from math import prod

import numpy as np
import pytest

from fadiff.hardware import Axis, load_machine
from fadiff.schedule.nest import SHARED
from fadiff.search.gradient import DescentSettings
from fadiff.search.gradient.candidates import choices
from fadiff.search.space import map_space, settle
from fadiff.workload import load_model
from search.networks import GEMMINI, PLAIN, add, mac, network

LARGE = load_machine("gemmini-large")


def of_dim(layer, dim, machine=LARGE, **settings):
    return next(
        c for c in choices(network(layer), machine, DescentSettings(**settings)) if c.dim == "GNKCPQRS".index(dim)
    )


def rows(choice):
    return {tuple(row) for row in choice.factors.tolist()}


@pytest.mark.parametrize(
    ("model", "machine"),
    [
        ("resnet18", "gemmini-large"),
        ("gpt3-6.7b", "eyeriss"),
        ("mobilenet_v1", "simba"),
        ("vgg16", "tesla-npu-like-df"),
    ],
)
def test_every_candidate_covers_its_dim_without_idle_factors_and_has_the_lanes(model, machine):
    workload, machine = load_model(model), load_machine(machine)
    for choice in choices(workload, machine, DescentSettings()):
        layer, factors = workload[workload.topological[choice.layer]], choice.factors
        size, private = layer.dims[choice.dim], factors[:, [slot != SHARED for slot in choice.slots]]
        shared = factors[:, -1] if SHARED in choice.slots else np.ones(len(factors))
        tile = np.ceil(size / shared)
        assert np.array_equal(shared, np.ceil(size / tile))
        assert np.array_equal(settle(private.T.astype(float), tile).T, private)
        assert 1 < len(np.unique(factors, axis=0)) == len(factors) <= 128
        for slot, column in zip(choice.slots, factors.T, strict=True):
            assert slot == SHARED or slot in map_space(machine).nodes["GNKCPQRS"[choice.dim]] or not layer.is_mac
            if slot != SHARED and isinstance(machine.nodes[slot], Axis):
                assert column.max() <= machine.nodes[slot].size


def test_a_small_dim_has_all_its_factorizations():
    found = rows(of_dim(mac("a", "K12 P6"), "K", spatial_slack=32))
    assert {four for four in product((1, 2, 3, 4, 6, 12), repeat=4) if prod(four) == 12} <= found
    assert any(prod(four) > 12 for four in found)


def test_seven_rows_may_be_cut_into_four_and_three():
    assert (2, 4, 1) in rows(of_dim(mac("a", "K4 P7"), "P"))


def test_a_thousand_channels_may_fill_all_lanes():
    assert of_dim(mac("a", "K1000 C4"), "K").factors[:, 2].max() == 32


def test_many_candidates_are_thinned_out_to_the_cap_and_the_extremes_stay():
    layer, settings = mac("a", "K25088 C4"), {"max_candidates": 64, "spatial_slack": 32}
    choice = of_dim(layer, "K", **settings)
    assert choice.factors.max(axis=0).tolist() == [25088, 25088, 32, 25088]
    assert len(choice.factors) == 64
    assert np.array_equal(choice.factors, of_dim(layer, "K", **settings).factors)


def test_what_must_be_whole_has_no_shared_candidates():
    workload = load_model("vgg16")
    flat = workload.topological.index("conv5_3")
    mine = [c for c in choices(workload, LARGE, DescentSettings()) if c.layer == flat and c.dim in (4, 5)]
    assert mine
    assert all(SHARED not in choice.slots for choice in mine)


def test_an_add_layer_only_chooses_what_it_shares():
    workload = network(mac("a", "K4 P7"), add("s", "K4 P7", "a", None))
    mine = [choice for choice in choices(workload, GEMMINI, DescentSettings()) if choice.layer == 1]
    assert [(choice.dim, choice.slots) for choice in mine] == [(4, (0, SHARED))]
    assert rows(mine[0]) == {(7, 1), (4, 2), (3, 3), (2, 4), (1, 7)}


@pytest.mark.parametrize(("machine", "fuse"), [(PLAIN, True), (GEMMINI, False)])
def test_nothing_is_shared_where_nothing_can_or_may_be_fused(machine, fuse):
    workload = network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a"))
    assert all(SHARED not in choice.slots for choice in choices(workload, machine, DescentSettings(fuse=fuse)))


def test_the_plain_form_offers_numbers_slot_by_slot():
    mine = list(choices(network(mac("a", "K7")), LARGE, DescentSettings(choice="integers")))
    assert [choice.slots for choice in mine] == [(1,), (2,), (3,)]
    assert all(choice.factors.ravel().tolist() == [1, 2, 3, 4, 7] for choice in mine)
