"""The model on arrays: batched, jitted, in single precision and differentiated, it says what it says alone."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fadiff.next.cost.evaluate import evaluate
from fadiff.next.cost.flows import flow_table, layer_flows
from fadiff.next.cost.model import layer_costs, network_cost
from fadiff.next.hardware import Axis, Memory, pack_machine
from fadiff.next.schedule import Group, Mapping, Schedule
from fadiff.next.schedule.arrays import fuse, pack_edges, pack_layers, pack_schedule
from fadiff.next.schedule.capacity import needs
from fadiff.next.schedule.nest import ALL, Nest
from fadiff.next.schedule.rules import Examined, violations
from fadiff.workload import DIMS, Dims, Workload
from next.cost.batches import (
    CORES,
    GEMMINI,
    MACHINES,
    OUTPUT_STATIONARY,
    ROW_STATIONARY,
    WORKLOAD,
    alone,
    drawn,
    stacked,
)
from next.schedule.toys import mac

LAYERS = pack_layers(WORKLOAD)
EDGES = len(WORKLOAD.edges)
every_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
two_machines = pytest.mark.parametrize("machine", [GEMMINI, CORES], ids=["gemmini", "cores"])


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def batch_of(machine, size=4, make=drawn):
    return [make(machine, seed) for seed in range(size)]


def on_jax(values):
    return jax.tree.map(jnp.asarray, values)


def costs_of(structure, layers, mapping, fusion, numbers, **settings):
    return layer_costs(Nest(structure, layers, mapping, fusion, **settings), numbers)


def sigma_of(schedule):
    return np.array([float(schedule.is_fused(edge)) for edge in schedule.workload.edges])


def relaxed(machine, packed, sigma, numbers=None, factors=None, **settings):
    """Costs of layers as a function of what a search moves: factors, sigmas, and the machine's numbers."""
    fusion = packed.fusion
    fusion = fuse(pack_edges(WORKLOAD), sigma, fusion.shared, fusion.shared_rank, fusion.tile)
    mapping = packed.mapping if factors is None else packed.mapping._replace(factors=factors)
    return costs_of(
        machine.structure, LAYERS, mapping, fusion, pack_machine(machine) if numbers is None else numbers, **settings
    )


def assert_each_is_as_alone(machine, batch, costs, rtol=1e-12):
    """Costs with a batch axis before the layers, against the evaluation of each schedule."""
    network = network_cost(LAYERS, costs)
    for i, schedule in enumerate(batch):
        one = evaluate(schedule)
        words = np.array([np.broadcast_to(flow, costs.steps.shape)[i] for flow in costs.words])
        np.testing.assert_allclose(words, one.words, rtol=rtol, atol=rtol * np.max(one.words))
        terms = [np.asarray(term)[i] for term in (costs.steps, *costs.memory_cycles)]
        np.testing.assert_allclose(terms, one.terms, rtol=rtol)
        np.testing.assert_allclose(costs.cycles[i], one.layer_cycles, rtol=rtol)
        np.testing.assert_allclose(costs.energy_pj[i], one.layer_energy_pj, rtol=rtol)
        assert float(network.energy_pj[i]) == pytest.approx(one.energy_pj, rel=rtol)
        assert float(network.cycles[i]) == pytest.approx(one.cycles, rel=rtol)
        assert float(network.edp_uj_cycles[i]) == pytest.approx(one.edp_uj_cycles, rel=rtol)


# One model, however it runs.


@every_machine
def test_a_batch_axis_before_the_layers_changes_no_number(machine):
    batch = batch_of(machine, 8)
    assert all(violations(schedule) == [] for schedule in batch)
    packed, numbers = stacked(batch), pack_machine(machine)
    nest = Nest(machine.structure, LAYERS, packed.mapping, packed.fusion)
    assert_each_is_as_alone(machine, batch, layer_costs(nest, numbers))
    need = needs(nest, packed.placement, numbers)
    for i, schedule in enumerate(batch):
        examined = Examined(schedule)
        for node, total in needs(examined.nest, examined.placement, numbers).total.items():
            np.testing.assert_allclose(need.total[node][i], total, rtol=1e-12)


@pytest.mark.parametrize("machine", [GEMMINI, OUTPUT_STATIONARY], ids=["gemmini", "output-stationary"])
def test_a_jitted_batch_costs_what_each_schedule_costs_alone(machine):
    model = jax.jit(partial(costs_of, machine.structure))
    for start in (0, 4):
        batch = [drawn(machine, seed) for seed in range(start, start + 4)]
        packed = stacked(batch)
        assert_each_is_as_alone(machine, batch, model(LAYERS, packed.mapping, packed.fusion, pack_machine(machine)))
    assert model._cache_size() == 1  # no schedule needs code of its own


@pytest.mark.parametrize("machine", [CORES, ROW_STATIONARY], ids=["cores", "row-stationary"])
def test_jax_and_numpy_count_alike(machine):
    batch = batch_of(machine)
    packed = on_jax(stacked(batch))
    costs = costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, pack_machine(machine))
    assert isinstance(costs.energy_pj, jax.Array)
    assert_each_is_as_alone(machine, batch, costs)


def test_single_precision_is_good_to_a_millionth():
    batch = batch_of(GEMMINI)
    with jax.enable_x64(False):
        packed, numbers = on_jax(stacked(batch)), on_jax(pack_machine(GEMMINI))
        model = jax.jit(partial(costs_of, GEMMINI.structure))
        costs = model(on_jax(LAYERS), packed.mapping, packed.fusion, numbers)
    assert costs.energy_pj.dtype == jnp.float32
    assert_each_is_as_alone(GEMMINI, batch, jax.tree.map(lambda x: np.asarray(x, dtype=np.float64), costs), rtol=1e-6)


@every_machine
def test_layers_that_run_alone_need_half_of_the_work_for_the_same_numbers(machine):
    batch = batch_of(machine, make=alone)
    packed = stacked(batch)
    assert_each_is_as_alone(
        machine,
        batch,
        costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, pack_machine(machine), alone=True),
    )


@two_machines
@pytest.mark.parametrize("gradient", ["product", "smooth"])
def test_gradients_let_through_change_no_number(machine, gradient):
    batch = batch_of(machine)
    packed, numbers = on_jax(stacked(batch)), pack_machine(machine)
    costs = costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers, gradient=gradient)
    assert_each_is_as_alone(machine, batch, costs)


def test_machines_of_one_structure_share_a_compiled_program():
    traced = []

    @partial(jax.jit, static_argnums=0)
    def energy(structure, layers, mapping, fusion, numbers):
        traced.append(structure)
        return costs_of(structure, layers, mapping, fusion, numbers).energy_pj

    nodes = {
        Memory: lambda node: replace(node, read_pj=3.0 * node.read_pj + 1.0, words_per_cycle=7.0),
        Axis: lambda node: replace(node, size=2 * node.size),
    }
    other = replace(GEMMINI, name="other", nodes=tuple(nodes[type(node)](node) for node in GEMMINI.nodes), mac_pj=9.0)
    assert other.structure == GEMMINI.structure
    small = MACHINES["gemmini-small"]
    assert small.structure != GEMMINI.structure  # its rows take fewer dims
    packed = stacked(batch_of(GEMMINI, 2))
    found = [energy(m.structure, LAYERS, packed.mapping, packed.fusion, pack_machine(m)) for m in (GEMMINI, other)]
    assert len(traced) == 1
    for machine, energies in zip((GEMMINI, other), found, strict=True):
        for i, schedule in enumerate(batch_of(GEMMINI, 2)):
            np.testing.assert_allclose(
                energies[i], evaluate(replace(schedule, machine=machine)).layer_energy_pj, rtol=1e-12
            )


@every_machine
def test_the_table_of_flows_names_the_rows_of_words(machine):
    schedule = drawn(machine, 0)
    nest = Examined(schedule).nest
    told = [flow for flow, _ in layer_flows(nest, pack_machine(machine))]
    assert tuple(told) == flow_table(machine.structure)
    assert len(set(told)) == len(told)
    assert len(evaluate(schedule).words) == len(told)
    for flow in told:
        assert flow.memory in machine.structure.memories
        assert flow.other is None or flow.other in machine.structure.memories
        assert flow.what in ("fused", "addend") or flow.memory in machine.structure.keepers(flow.tensor)


# Gradients.


@two_machines
@pytest.mark.parametrize("gradient", ["product", "smooth"])
def test_every_gradient_is_finite(machine, gradient):
    packed = on_jax(stacked(batch_of(machine, 2)))
    fractions = np.random.default_rng(0).uniform(0.05, 0.95, (2, EDGES))

    def log_edp(factors, sigma, numbers):
        costs = relaxed(machine, packed, sigma, numbers, factors, gradient=gradient)
        return jnp.sum(jnp.log(network_cost(LAYERS, costs).edp_uj_cycles))

    numbers = on_jax(pack_machine(machine))
    for sigma in (fractions, np.stack([sigma_of(schedule) for schedule in batch_of(machine, 2)])):
        factors, sigmas, machines = jax.grad(log_edp, argnums=(0, 1, 2))(
            packed.mapping.factors, jnp.asarray(sigma), numbers
        )
        assert np.all(np.isfinite(factors))
        assert np.all(np.isfinite(sigmas))
        for name, slope in machines._asdict().items():
            assert np.all(np.isfinite(slope)), name
        assert np.any(factors != 0)
        assert np.all(machines.usable_bytes == 0)


def test_the_gradient_of_a_count_is_that_of_the_product():
    """Cut ends make counts jump; their slopes are those of factors that multiply."""
    schedule = drawn(GEMMINI, 0)
    packed = on_jax(pack_schedule(schedule))

    def count(factors, dim, inside):
        mapping = packed.mapping._replace(factors=factors)
        nest = Nest(GEMMINI.structure, LAYERS, mapping, packed.fusion, gradient="product")
        return jnp.sum(nest.count(dim, ALL, GEMMINI.structure.axes if inside else ()))

    factors = np.asarray(packed.mapping.factors)
    for dim, inside in ((DIMS.index("K"), True), (DIMS.index("C"), False), (DIMS.index("P"), False)):
        slope = jax.grad(count)(packed.mapping.factors, dim, inside)
        taken = [
            node
            for node, dims in enumerate(GEMMINI.structure.dims)
            if DIMS[dim] in dims and (inside or node in GEMMINI.structure.memories)
        ]
        product = factors[taken, dim].prod(axis=0) * np.asarray(packed.fusion.shared)[dim]
        expected = np.zeros_like(factors)
        expected[taken, dim] = product / factors[taken, dim]
        np.testing.assert_allclose(slope, expected, rtol=1e-12)


@two_machines
def test_slopes_along_machine_numbers_are_what_they_count(machine):
    """Energies: the words (and MACs) that pay them. Widths: each layer's energy is linear in them."""
    schedule = drawn(machine, 1)
    packed, evaluation = on_jax(pack_schedule(schedule)), evaluate(schedule)
    fusion, repeat = packed.fusion, evaluation.repeat

    def energy(numbers):
        costs = costs_of(machine.structure, LAYERS, packed.mapping, fusion, numbers)
        return network_cost(LAYERS, costs).energy_pj

    numbers = on_jax(pack_machine(machine))
    slope = jax.grad(energy)(numbers)
    for i, node in enumerate(machine.structure.memories):
        for action in ("read", "write"):
            here = [(flow.memory, flow.action) == (node, action) for flow in evaluation.flows]
            words = float((evaluation.words[here] @ repeat).sum())
            assert float(getattr(slope, f"{action}_pj")[i]) == pytest.approx(words, rel=1e-12)
        spent = evaluation.energy_by_node_pj()[machine.nodes[node].name]
        assert float(slope.word_bits[i]) == pytest.approx(-spent / float(numbers.word_bits[i]), rel=1e-12)
    assert float(slope.mac_pj) == WORKLOAD.macs
    by_bits = sum(
        float(getattr(slope, f"bits_{what}")) * float(getattr(numbers, f"bits_{what}"))
        for what in ("w", "i", "o", "sums", "spilled")
    )
    assert by_bits + WORKLOAD.macs * machine.mac_pj == pytest.approx(evaluation.energy_pj, rel=1e-12)
    for name in ("lanes", "usable_bytes", "words_per_cycle", "read_words_per_cycle", "write_words_per_cycle", "serial"):
        assert np.all(getattr(slope, name) == 0), name


def test_slopes_of_time_along_rates_are_those_of_the_slowest_memory():
    machine = MACHINES["gemmini-small"]
    evaluation = next(found for found in (evaluate(drawn(machine, seed)) for seed in range(99)) if _one_binds(found))
    packed = on_jax(pack_schedule(evaluation.schedule))

    def cycles(numbers):
        return costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers).cycles.sum()

    numbers = on_jax(pack_machine(machine))
    slope = jax.grad(cycles)(numbers)
    bound = dict.fromkeys(evaluation.term_names, 0.0)
    for name, spent in zip(evaluation.binding, evaluation.layer_cycles, strict=True):
        bound[name] += float(spent)
    for i, memory in enumerate(machine.memories):
        rate = memory.words_per_cycle
        expected = 0 if rate is None else -bound[memory.name] / rate
        assert float(slope.words_per_cycle[i]) == pytest.approx(expected, rel=1e-12)
    assert np.all(slope.read_pj == 0)


def _one_binds(evaluation):
    """Whether every layer has one slowest part, and not all have the same."""
    first, second = np.sort(evaluation.terms, axis=0)[[-1, -2]]
    return np.all(first > second) and len(set(evaluation.binding)) > 2


@two_machines
def test_slopes_along_sigma_are_differences(machine):
    """The model is a polynomial in every sigma, away from decisions: no layer enters or leaves a group here."""
    schedule = drawn(machine, 2)
    packed = pack_schedule(schedule)
    sigma = np.random.default_rng(1).uniform(0.6, 0.9, EDGES)

    def energy(sigma, packed):
        return relaxed(machine, packed, sigma).energy_pj.sum()

    slope = jax.grad(energy)(jnp.asarray(sigma), on_jax(packed))
    step = 1e-6
    for edge in range(EDGES):
        moved = [sigma + side * step * np.eye(EDGES)[edge] for side in (1, -1)]
        difference = (energy(moved[0], packed) - energy(moved[1], packed)) / (2 * step)
        assert float(slope[edge]) == pytest.approx(difference, rel=1e-6, abs=1e-3)


# Fusion between its ends.


@every_machine
def test_sigma_at_one_is_the_fused_schedule(machine):
    schedule = drawn(machine, 3)
    costs = relaxed(machine, pack_schedule(schedule), sigma_of(schedule))
    np.testing.assert_array_equal(costs.energy_pj, evaluate(schedule).layer_energy_pj)
    apart = relaxed(machine, pack_schedule(schedule), np.zeros(EDGES))
    groups = tuple(replace(group, layers=(name,)) for group in schedule.groups for name in group.layers)
    unfused = replace(schedule, groups=groups)
    same = pack_schedule(unfused).fusion.tile == pack_schedule(schedule).fusion.tile
    for i, layer in enumerate(WORKLOAD.layers):
        if np.all(same[:, i]):  # its group cuts it as it would be cut alone
            assert apart.energy_pj[i] == evaluate(unfused).layer_energy_pj[i], layer.name


@pytest.mark.parametrize("seed", range(3))
def test_fractions_of_sigma_enter_where_the_paper_puts_them(seed):
    """Drain x (1 - product of sigmas), copy x (1 - product of (1 - sigma)), fill x (1 - sigma), reads in place."""
    machine, schedule = GEMMINI, drawn(GEMMINI, seed)
    packed, table = pack_schedule(schedule), flow_table(GEMMINI.structure)
    sigma = np.random.default_rng(seed).uniform(0.6, 0.9, EDGES)
    at = {(edge.source, edge.target): value for edge, value in zip(WORKLOAD.edges, sigma, strict=True)}
    number = {layer.name: i for i, layer in enumerate(WORKLOAD.layers)}
    scratchpad = machine.structure.fuses

    def words(sigma, layer, tensor, memory, action, what):
        found = relaxed(machine, packed, sigma).words
        here = [(f.tensor, f.memory, f.action, f.what) == (tensor, memory, action, what) for f in table]
        return sum(float(row[number[layer]]) for row, yes in zip(found, here, strict=True) if yes)

    ones = np.full(EDGES, 0.999999999)  # in groups, as with the fractions, but all fused

    def share(layer, *flow):
        """Of what an unfused tensor would move."""
        fused, part = words(ones, layer, *flow), words(sigma, layer, *flow)
        none = (part - fused) / (1 - at_edges[layer]) if layer in at_edges else part
        return part / none

    at_edges = {"b": at["a", "b"], "d": at["s", "d"]}
    stored = {layer.name: layer.stored_words for layer in WORKLOAD.layers}
    both, none = at["a", "b"] * at["a", "s"], (1 - at["a", "b"]) * (1 - at["a", "s"])
    assert words(sigma, "a", "O", 0, "write", "finished") == pytest.approx(stored["a"] * (1 - both))
    assert words(sigma, "a", "O", scratchpad, "write", "fused") == pytest.approx(stored["a"] * (1 - none))
    assert words(sigma, "b", "O", 0, "write", "finished") == pytest.approx(stored["b"] * (1 - at["b", "s"]))
    assert words(sigma, "d", "O", 0, "write", "finished") == stored["d"]
    for layer in ("b", "d"):
        assert share(layer, "I", 0, "read", "operand") == pytest.approx(1 - at_edges[layer], rel=1e-6)
        assert share(layer, "I", scratchpad, "write", "operand") == pytest.approx(1 - at_edges[layer], rel=1e-6)
    fused_addends = at["b", "s"] + at["a", "s"]
    assert words(sigma, "s", "O", scratchpad, "read", "addend") == pytest.approx(fused_addends * stored["s"])
    assert words(sigma, "s", "O", 0, "read", "addend") == pytest.approx((2 - fused_addends) * stored["s"])
    for what in ("update", "reload", "unfinished"):
        for name in number:
            keeper = machine.structure.keepers("O")[-1]
            assert words(sigma, name, "O", keeper, "write", what) == words(ones, name, "O", keeper, "write", what)


def test_a_network_without_edges_has_no_sigma():
    layer = mac("one", K=2, C=2)
    workload = Workload("one", (layer,))
    fusion = fuse(pack_edges(workload), np.zeros((3, 0)), *(np.ones((8, 3, 1)) for _ in range(3)))
    assert fusion.drained.tolist() == [[1.0]] * 3
    assert fusion.copied.tolist() == fusion.grouped.tolist() == [[0.0]] * 3
    mapping = Mapping.of(GEMMINI, {"accumulator": layer.dims, "cols": Dims()})
    evaluation = evaluate(Schedule(workload, GEMMINI, (Group(("one",)),), {"one": mapping}))
    assert evaluation.energy_by_node_pj()["mac"] == 4 * GEMMINI.mac_pj
