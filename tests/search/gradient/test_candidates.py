from itertools import product
from math import prod

import numpy as np
import pytest

from fadiff.hardware import load_hardware
from fadiff.search.gradient.candidates import SHARED, SPATIAL, T3, divisor_choices, factorization_choices
from fadiff.search.gradient.options import DescentOptions
from fadiff.workload import Dims, Input, Layer, Workload, load_model

LARGE = load_hardware("gemmini-large")


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v1", "vgg16", "gpt3-6.7b"])
def test_every_candidate_multiplies_to_its_size_and_has_room(name: str):
    workload = load_model(name)
    for choice in factorization_choices(workload, LARGE, DescentOptions()):
        layer = workload[workload.topological[choice.layer]]
        assert (choice.factors.prod(axis=1) == layer.dims[choice.dim]).all()
        assert len(np.unique(choice.factors, axis=0)) == len(choice.factors) <= 256
        if SPATIAL in choice.slots:
            assert choice.factors[:, choice.slots.index(SPATIAL)].max() <= 32
        if SHARED in choice.slots and choice.dim in (4, 5) and workload.consumers[layer.name]:
            stored = layer.stored[choice.dim - 4]
            assert (stored % choice.factors[:, choice.slots.index(SHARED)] == 0).all()


def test_a_small_dim_has_all_its_factorizations():
    layer = Layer("a", "mac", Dims(K=12, P=6), (Input(None),))
    found = {c.dim: c for c in factorization_choices(Workload("w", (layer,)), LARGE, DescentOptions(spatial_slack=32))}
    ways = sum(prod(four) == 12 for four in product((1, 2, 3, 4, 6, 12), repeat=4))
    assert len(found[2].factors) == ways
    assert len(found[4].factors) == sum(prod(three) == 6 for three in product((1, 2, 3, 6), repeat=3))


def test_a_dim_with_thousands_of_factorizations_is_thinned_out_to_the_cap_and_keeps_the_extremes():
    layer = Layer("a", "mac", Dims(K=25088, C=4), (Input(None),))
    options = DescentOptions(max_candidates=128, spatial_slack=32)
    choice = next(c for c in factorization_choices(Workload("w", (layer,)), LARGE, options) if c.dim == 2)
    assert len(choice.factors) == 128
    assert list(choice.factors.max(axis=0)) == [32, 25088, 25088, 25088]
    again = next(c for c in factorization_choices(Workload("w", (layer,)), LARGE, options) if c.dim == 2)
    assert np.array_equal(choice.factors, again.factors)


def test_what_must_be_whole_has_no_shared_candidates():
    workload = load_model("vgg16")
    flat = workload.topological.index("conv5_3")
    rows = [c for c in factorization_choices(workload, LARGE, DescentOptions()) if c.layer == flat and c.dim in (4, 5)]
    assert rows
    assert all(SHARED not in c.slots for c in rows)


def test_an_add_layer_only_chooses_what_it_shares():
    workload = load_model("resnet18")
    add = workload.topological.index("l1.0.add")
    rows = [c for c in factorization_choices(workload, LARGE, DescentOptions()) if c.layer == add]
    assert [c.dim for c in rows] == [4, 5]
    assert all(c.slots == (T3, SHARED) for c in rows)


def test_the_plain_form_offers_divisors_slot_by_slot():
    layer = Layer("a", "mac", Dims(K=64), (Input(None),))
    rows = list(divisor_choices(Workload("w", (layer,)), LARGE, DescentOptions()))
    assert [c.slots for c in rows] == [(0,), (2,), (3,)]
    assert [len(c.factors) for c in rows] == [6, 7, 7]
