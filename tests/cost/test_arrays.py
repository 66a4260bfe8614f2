"""The model on JAX arrays: jitted, batched and differentiated, it says what it says on NumPy arrays."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.batches import LAYERS, leaves, one_schedule, stacked
from fadiff.cost import evaluate
from fadiff.cost.arrays import MappingArrays, fuse, pack_edges, pack_hardware, pack_layers, pack_schedule
from fadiff.cost.model import layer_costs, network_cost, schedule_costs
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.legality import violations
from fadiff.workload import Dims, Input, Layer, Workload
from oracle import schedules

WORKLOAD = Workload("drawn", LAYERS)
MACHINE = schedules.MACHINE
EDGES = len(WORKLOAD.edges)
BATCH = 4


batches = st.lists(one_schedule(), min_size=BATCH, max_size=BATCH)


def sigmas(size):
    fractions = st.floats(0.05, 0.95)
    return st.lists(st.lists(fractions, min_size=EDGES, max_size=EDGES), min_size=size, max_size=size).map(np.array)


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def relaxed(spatial, temporal, sigma, packed, hardware=None, workload=WORKLOAD):
    """A network's cost, and its layers', as a function of what a search moves."""
    layers = pack_layers(workload)
    mapping = MappingArrays(spatial, temporal, packed.mapping.rank)
    fusion = fuse(pack_edges(workload), sigma, packed.fusion.trips, packed.fusion.trip_rank, packed.fusion.x_trips)
    costs = layer_costs(layers, mapping, fusion, pack_hardware(MACHINE) if hardware is None else hardware)
    return network_cost(layers, costs), costs


def sigma_of(schedule):
    return np.array([float(schedule.is_fused(edge)) for edge in schedule.workload.edges])


def on_jax(values):
    return jax.tree.map(jnp.asarray, values)


def assert_equal_leaves(batched, one, where):
    for (name, many), (_, single) in zip(leaves(batched), leaves(one), strict=True):
        np.testing.assert_allclose(where(many), single, rtol=1e-12, atol=1e-9, err_msg=name)


def test_a_jitted_batch_costs_what_each_schedule_costs_alone():
    model = jax.jit(jax.vmap(schedule_costs, in_axes=(None, 0, None)))

    @settings(max_examples=25)
    @given(batches)
    def check(batch):
        costs, need, network = model(pack_layers(WORKLOAD), stacked(batch, axis=0), pack_hardware(MACHINE))
        for i, schedule in enumerate(batch):
            alone = evaluate(schedule)
            assert_equal_leaves(costs, alone.layers, lambda values, i=i: values[i])
            assert_equal_leaves(need, alone.needs, lambda values, i=i: values[i])
            assert float(network.energy_pj[i]) == pytest.approx(alone.energy_pj, rel=1e-12)
            assert float(network.cycles[i]) == pytest.approx(alone.cycles, rel=1e-12)
            assert float(network.edp_uj_cycles[i]) == pytest.approx(alone.edp_uj_cycles, rel=1e-12)

    check()
    assert model._cache_size() == 1  # no schedule needs code of its own


@settings(max_examples=25)
@given(batches)
def test_a_batch_axis_before_the_layers_changes_no_number(batch):
    costs, need, network = schedule_costs(pack_layers(WORKLOAD), stacked(batch, axis=-2), pack_hardware(MACHINE))
    for i, schedule in enumerate(batch):
        assert violations(schedule) == []
        alone = evaluate(schedule)
        assert_equal_leaves(costs, alone.layers, lambda values, i=i: values[i])
        assert_equal_leaves(need, alone.needs, lambda values, i=i: values[i])
        assert network.energy_pj[i] == pytest.approx(alone.energy_pj, rel=1e-12)


@settings(max_examples=5)
@given(batches)
def test_single_precision_is_good_to_a_millionth(batch):
    with jax.enable_x64(False):
        packed = on_jax(stacked(batch, axis=-2))
        _, _, network = schedule_costs(on_jax(pack_layers(WORKLOAD)), packed, on_jax(pack_hardware(MACHINE)))
    assert network.energy_pj.dtype == jnp.float32
    for i, schedule in enumerate(batch):
        assert float(network.energy_pj[i]) == pytest.approx(evaluate(schedule).energy_pj, rel=1e-6)


def log_edp_gradients(batch, sigma):
    """Gradients of each schedule's log EDP by its spatial and temporal factors and its sigmas."""
    packed = on_jax(stacked(batch, axis=-2))

    def total(spatial, temporal, sigma):
        return jnp.sum(jnp.log(relaxed(spatial, temporal, sigma, packed)[0].edp_uj_cycles))

    return jax.grad(total, argnums=(0, 1, 2))(packed.mapping.spatial, packed.mapping.temporal, jnp.asarray(sigma))


@settings(max_examples=8)
@given(batches, sigmas(BATCH))
def test_every_gradient_is_finite(batch, sigma):
    for fused in (sigma, np.stack([sigma_of(schedule) for schedule in batch])):
        for gradient in log_edp_gradients(batch, fused):
            assert np.all(np.isfinite(gradient))


def one_sided_slopes(packed, sigma):
    """Slopes of log EDP along every factor and sigma, from above and from below."""
    point = [packed.mapping.spatial, packed.mapping.temporal, sigma]
    here = np.log(relaxed(*point, packed)[0].edp_uj_cycles)
    for which, values in enumerate(point):
        step = 1e-6 * values.ravel()
        slopes = []
        for sign in (1, -1):
            # One copy of the values per entry, that entry moved; the copies stand on the batch axis.
            moved = (values.ravel() + sign * np.diag(step)).reshape(-1, *values.shape)
            moved = [*point[:which], np.moveaxis(moved, 0, -2), *point[which + 1 :]]
            slopes.append(sign * (np.log(relaxed(*moved, packed)[0].edp_uj_cycles) - here) / step)
        yield slopes


@settings(max_examples=6)
@given(batches, sigmas(BATCH))
def test_gradients_are_slopes_wherever_no_decision_changes(batch, sigma):
    """Where the slopes from both sides agree no comparison flips nearby, and the gradient is that slope."""
    gradients = log_edp_gradients(batch, sigma)
    for i, schedule in enumerate(batch):
        slopes = one_sided_slopes(pack_schedule(schedule), sigma[i])
        for gradient, (above, below), least in zip(gradients, slopes, (8, 32, EDGES - 2), strict=True):
            smooth = np.isclose(above, below, rtol=1e-3, atol=1e-6)
            assert smooth.sum() >= least
            found = np.ravel(np.asarray(gradient)[..., i, :])[smooth]
            np.testing.assert_allclose(found, above[smooth], rtol=1e-3, atol=1e-5)


@settings(max_examples=40)
@given(one_schedule(), sigmas(1))
def test_fractions_of_sigma_share_out_the_words(schedule, sigma):
    """Write-back x (1 - product), copy x (1 - product of (1 - sigma)), fill x (1 - sigma), buffer reads x sigma."""
    packed = pack_schedule(schedule)
    factors = (packed.mapping.spatial, packed.mapping.temporal)
    at = {(edge.source, edge.target): value for edge, value in zip(WORKLOAD.edges, sigma[0], strict=True)}
    traffic = relaxed(*factors, sigma[0], packed)[1].traffic
    unfused = relaxed(*factors, np.zeros(EDGES), packed)[1].traffic
    number = {layer.name: i for i, layer in enumerate(LAYERS)}

    def share(field, layer):
        return getattr(traffic, field)[number[layer]] / getattr(unfused, field)[number[layer]]

    a, stored = number["a"], LAYERS[0].stored_words
    all_fused, none_fused = at["a", "b"] * at["a", "s"], (1 - at["a", "b"]) * (1 - at["a", "s"])
    assert traffic.l3_output[a] == pytest.approx(stored * (1 - all_fused))
    assert traffic.l2_output_copy[a] == pytest.approx(stored * (1 - none_fused))
    assert share("l3_output", "b") == pytest.approx(1 - at["b", "s"])
    assert share("l3_output", "d") == share("l3_output", "av") == share("l1_drain", "d") == 1
    for field in ("l3_input", "l2_input_fill"):
        assert share(field, "b") == pytest.approx(1 - at["a", "b"])
        assert share(field, "d") == pytest.approx(1 - at["s", "d"])
        assert share(field, "qk") == 1
    for field in ("l3_weight", "l2_weight_fill"):
        assert share(field, "qk") == pytest.approx(1 - at["k", "qk"])
        assert share(field, "b") == 1
    fused_addends = at["b", "s"] + at["a", "s"]
    assert share("l3_input", "s") == pytest.approx(1 - fused_addends / 2)
    assert traffic.l2_addend_read[number["s"]] == pytest.approx(fused_addends * LAYERS[2].output_words)
    for field in ("macs", "l1_update", "l1_reload", "l1_addend", "l2_input_read", "l3_spill"):
        np.testing.assert_array_equal(getattr(traffic, field), getattr(unfused, field), err_msg=field)


@settings(max_examples=40)
@given(one_schedule())
def test_sigma_at_its_ends_is_the_fused_and_the_unfused_schedule(schedule):
    groups = tuple(replace(group, trips=group.trips._replace(X=1)) for group in schedule.groups)
    fused = replace(schedule, groups=groups)
    apart = replace(schedule, groups=tuple(replace(g, layers=(name,)) for g in groups for name in g.layers))
    packed = pack_schedule(fused)
    for exact in (fused, apart):
        network, costs = relaxed(packed.mapping.spatial, packed.mapping.temporal, sigma_of(exact), packed)
        alone = evaluate(exact)
        assert network.energy_pj == pytest.approx(alone.energy_pj, rel=1e-12)
        assert network.cycles == pytest.approx(alone.cycles, rel=1e-12)
        assert_equal_leaves(costs.traffic, alone.layers.traffic, np.asarray)


def test_the_gradient_of_sigma_says_that_fusing_a_large_intermediate_helps():
    layers = (
        Layer("wide", "mac", Dims(K=64, C=2, P=8, Q=8), (Input(None),)),
        Layer("narrow", "mac", Dims(K=2, C=64, P=8, Q=8), (Input("wide"),)),
    )
    mappings = {
        "wide": Mapping(spatial=Dims(K=32, C=2), l1=Dims(K=2), l0=Dims(P=8, Q=8)),
        "narrow": Mapping(spatial=Dims(K=2, C=64), l0=Dims(P=8, Q=8)),
    }
    schedule = Schedule(Workload("bottleneck", layers), MACHINE, (Group(("wide", "narrow")),), mappings)
    assert violations(schedule) == []
    packed = on_jax(pack_schedule(schedule))
    words = layers[0].stored_words

    def cost(sigma):
        factors = (packed.mapping.spatial, packed.mapping.temporal)
        network, _ = relaxed(*factors, sigma[:, None], packed, workload=schedule.workload)
        return network

    sigma = jnp.array([0.0, 0.1, 0.5, 0.9, 1.0])
    # Not written to L3 and not read back; in L2 the copy takes the place of the fill.
    slopes = jax.grad(lambda sigma: jnp.sum(cost(sigma).energy_pj))(sigma)
    np.testing.assert_allclose(slopes, -2 * MACHINE.pj.l3 * words)
    assert np.all(np.diff(cost(sigma).cycles) < 0)


@settings(max_examples=3)
@given(one_schedule())
def test_the_gradient_of_an_access_energy_is_the_number_of_accesses(schedule):
    packed = on_jax(pack_schedule(schedule))

    def energy(hardware):
        factors = (packed.mapping.spatial, packed.mapping.temporal)
        return relaxed(*factors, jnp.asarray(sigma_of(schedule)), packed, hardware)[0].energy_pj

    slope, evaluation = jax.grad(energy)(on_jax(pack_hardware(MACHINE))), evaluate(schedule)
    traffic = evaluation.layers.traffic
    for level in ("l0", "l1", "l2", "l3"):
        accesses = float(np.sum(getattr(traffic, level) * evaluation.repeat))
        assert float(getattr(slope, f"{level}_pj")) == pytest.approx(accesses, rel=1e-12)
    assert float(slope.mac_pj) == WORKLOAD.macs
    spills = float(np.sum(traffic.l1_reload * evaluation.repeat))
    assert float(slope.spill_words) == pytest.approx(2 * spills * MACHINE.pj.l3, rel=1e-12)
    assert float(slope.l1_bytes) == float(slope.rows) == 0


def test_a_network_without_edges_has_no_sigma():
    layer = Layer("alone", "mac", Dims(K=2, C=2), (Input(None),))
    workload = Workload("one", (layer,))
    fusion = fuse(pack_edges(workload), np.zeros((3, 0)), np.ones((5, 1)), np.ones((5, 1)), np.ones((2, 1)))
    assert fusion.drained.tolist() == [[1.0]] * 3
    assert fusion.copied.tolist() == fusion.grouped.tolist() == [[0.0]] * 3
    schedule = Schedule(workload, MACHINE, (Group(("alone",)),), {"alone": Mapping(l1=layer.dims)})
    assert evaluate(schedule).layers.traffic.l3_output.tolist() == [2.0]
