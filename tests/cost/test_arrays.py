"""The model on arrays: batched, jitted and in single precision it says what it says of each schedule alone."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cost.batches import (
    CORES,
    GEMMINI,
    LAYERS,
    MACHINES,
    OUTPUT_STATIONARY,
    ROW_STATIONARY,
    alone,
    batch_of,
    costs_of,
    drawn,
    on_jax,
    stacked,
)
from fadiff.cost.evaluate import evaluate
from fadiff.cost.flows import flow_table, layer_flows
from fadiff.cost.model import layer_costs, network_cost
from fadiff.hardware import Axis, Memory, pack_machine
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.arrays import fuse, pack_edges
from fadiff.schedule.capacity import needs
from fadiff.schedule.nest import Nest
from fadiff.schedule.rules import Examined, violations
from fadiff.workload import Workload
from schedule.toys import mac

every_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def assert_each_is_as_alone(batch, costs, rtol=1e-12):
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
        assert float(network.edp_uj_cycles[i]) == pytest.approx(one.edp_uj_cycles, rel=2 * rtol)


@every_machine
def test_a_batch_axis_before_the_layers_changes_no_number(machine):
    batch = [*batch_of(machine), *batch_of(machine, 4)]
    assert all(violations(schedule) == [] for schedule in batch)
    packed, numbers = stacked(batch), pack_machine(machine)
    nest = Nest(machine.structure, LAYERS, packed.mapping, packed.fusion)
    assert_each_is_as_alone(batch, layer_costs(nest, numbers))
    need = needs(nest, packed.placement, numbers)
    for i, schedule in enumerate(batch):
        examined = Examined(schedule)
        for node, total in needs(examined.nest, examined.placement, numbers).total.items():
            np.testing.assert_allclose(need.total[node][i], total, rtol=1e-12)


@every_machine
def test_layers_that_run_alone_take_half_of_the_work_for_the_same_numbers(machine):
    batch = batch_of(machine, make=alone)
    packed, numbers = stacked(batch), pack_machine(machine)
    assert_each_is_as_alone(
        batch, costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers, alone=True)
    )


def test_one_compiled_program_prices_all_schedules_on_all_machines_of_one_structure():
    traced = []

    @partial(jax.jit, static_argnums=0)
    def model(structure, layers, mapping, fusion, numbers):
        traced.append(structure)
        return costs_of(structure, layers, mapping, fusion, numbers)

    change = {
        Memory: lambda node: replace(node, read_pj=3.0 * node.read_pj + 1.0, words_per_cycle=7.0, word_bits=24),
        Axis: lambda node: replace(node, size=2 * node.size),
    }
    nodes = tuple(change[type(node)](node) for node in GEMMINI.nodes)
    other = replace(GEMMINI, name="other", nodes=nodes, mac_pj=9.0, overlap="full")
    assert other.structure == GEMMINI.structure
    assert MACHINES["gemmini-small"].structure != GEMMINI.structure  # its rows take fewer dims
    for machine, start in ((GEMMINI, 0), (GEMMINI, 4), (other, 0)):
        batch = [replace(schedule, machine=machine) for schedule in batch_of(GEMMINI, start)]
        packed, numbers = stacked(batch), pack_machine(machine)
        assert_each_is_as_alone(batch, model(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers))
    assert len(traced) == 1


@pytest.mark.parametrize("machine", [CORES, ROW_STATIONARY], ids=["cores", "row-stationary"])
def test_jax_and_numpy_count_alike(machine):
    batch = batch_of(machine)
    packed = on_jax(stacked(batch))
    costs = costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, pack_machine(machine))
    assert isinstance(costs.energy_pj, jax.Array)
    assert_each_is_as_alone(batch, costs)


def test_single_precision_is_good_to_a_millionth():
    machine = OUTPUT_STATIONARY
    batch = batch_of(machine)
    with jax.enable_x64(False):
        packed, numbers = on_jax(stacked(batch)), on_jax(pack_machine(machine))
        model = jax.jit(partial(costs_of, machine.structure))
        costs = model(on_jax(LAYERS), packed.mapping, packed.fusion, numbers)
    assert costs.energy_pj.dtype == jnp.float32
    assert_each_is_as_alone(batch, jax.tree.map(lambda x: np.asarray(x, dtype=np.float64), costs), rtol=1e-6)


@every_machine
def test_the_table_of_flows_names_the_rows_of_words(machine):
    schedule = drawn(machine, 0)
    told = [flow for flow, _ in layer_flows(Examined(schedule).nest, pack_machine(machine))]
    assert tuple(told) == flow_table(machine.structure)
    assert len(set(told)) == len(told)
    assert len(evaluate(schedule).words) == len(told)
    for flow in told:
        assert flow.memory in machine.structure.memories
        assert flow.other is None or flow.other in machine.structure.memories
        assert flow.what in ("fused", "addend") or flow.memory in machine.structure.keepers(flow.tensor)


def test_a_network_without_edges_has_no_sigma():
    layer = mac("one", K=2, C=2)
    workload = Workload("one", (layer,))
    fusion = fuse(pack_edges(workload), np.zeros((3, 0)), *(np.ones((8, 3, 1)) for _ in range(3)))
    assert fusion.drained.tolist() == [[1.0]] * 3
    assert fusion.copied.tolist() == fusion.grouped.tolist() == [[0.0]] * 3
    mapping = Mapping.of(GEMMINI, {"accumulator": layer.dims})
    evaluation = evaluate(Schedule(workload, GEMMINI, (Group(("one",)),), {"one": mapping}))
    assert evaluation.energy_by_node_pj()["mac"] == 4 * GEMMINI.mac_pj
