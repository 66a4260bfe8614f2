"""A vector unit: a term of the time, an energy of its own, and nothing else."""

from dataclasses import asdict

import jax
import numpy as np
import pytest

from cost.batches import on_jax
from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.what_if import what_if
from fadiff.cost import evaluate
from fadiff.cost.model import layer_costs
from fadiff.hardware import Vector, pack_machine
from fadiff.hardware.machine import VECTOR
from fadiff.schedule.arrays import pack_layers, pack_schedule
from fadiff.schedule.nest import Nest
from schedule.toys import add, conv, on, schedule

PLAN = schedule(
    conv("a", epilogue=("bias", "gelu")),
    conv("b", "a", K=2, epilogue=("max_pool",), out=(2, 2)),
    add("s", "b", "b", K=2, P=2, Q=2, epilogue=("relu",), repeat=1),
)
OPERATIONS = [32 * 6, 32, 8 * 2]


@pytest.mark.parametrize("overlap", ["full", "none"])
@pytest.mark.parametrize("lanes", [1, 3, 1000])
def test_a_vector_unit_is_one_more_term_of_the_time_and_adds_its_energy(lanes, overlap):
    free = evaluate(on(PLAN, overlap=overlap))
    charged = evaluate(on(PLAN, overlap=overlap, vector=Vector(lanes, 0.75)))
    assert charged.term_names == (*free.term_names, VECTOR)
    np.testing.assert_array_equal(charged.terms[:-1], free.terms)
    np.testing.assert_allclose(charged.terms[-1], np.array(OPERATIONS) / lanes)
    np.testing.assert_allclose(charged.layer_energy_pj, free.layer_energy_pj + 0.75 * np.array(OPERATIONS))
    first, others = charged.terms[1], np.delete(charged.terms, 1, axis=0).max(axis=0)
    expected = others + first if overlap == "none" else np.maximum(others, first)
    np.testing.assert_allclose(charged.layer_cycles, expected)
    np.testing.assert_array_equal(charged.words, free.words)


def test_a_slow_vector_unit_binds_and_its_energy_is_told_apart():
    evaluation = evaluate(on(PLAN, vector=Vector(1, 100.0)))
    costs = breakdown(evaluation)
    assert evaluation.binding[0] == costs.layers[0].bound_by == VECTOR
    assert costs.totals.vector_energy_pj == evaluation.energy_by_node_pj()[VECTOR] == 100 * sum(OPERATIONS)
    assert sum(costs.energy_by_part_pj().values()) == pytest.approx(evaluation.energy_pj)
    assert [layer.vector_energy_pj for layer in costs.layers] == [100.0 * n for n in OPERATIONS]
    assert asdict(costs)["layers"][0]["cycles_by_term"][VECTOR] == OPERATIONS[0]


def test_without_a_vector_unit_operators_are_free_and_nobody_speaks_of_one():
    costs = breakdown(evaluate(PLAN))
    assert costs.totals.vector_energy_pj == 0
    assert VECTOR not in costs.energy_by_part_pj()
    assert VECTOR not in costs.layers[0].cycles_by_term


def test_jax_prices_a_vector_unit_as_numpy_does():
    charged = on(PLAN, vector=Vector(1, 0.75))
    packed, layers = pack_schedule(charged), pack_layers(charged.workload)
    with jax.enable_x64(True):
        nest = Nest(charged.machine.structure, *map(on_jax, (layers, packed.mapping, packed.fusion)))
        costs = layer_costs(nest, on_jax(pack_machine(charged.machine)))
        expected = evaluate(charged)
        np.testing.assert_allclose(costs.cycles, expected.layer_cycles)
        np.testing.assert_allclose(costs.energy_pj, expected.layer_energy_pj)


def test_what_if_knows_the_numbers_of_a_vector_unit():
    evaluation = evaluate(on(PLAN, vector=Vector(1, 100.0)))
    found = {one.name: one for one in what_if(evaluation).sensitivities}
    share = evaluation.energy_by_node_pj()[VECTOR] / evaluation.energy_pj
    assert found["vector.pj"].elasticity == pytest.approx(share, rel=1e-4)
    twice = evaluate(on(PLAN, vector=Vector(2, 100.0)))
    assert found["vector.lanes"].doubled_edp_change == pytest.approx(twice.edp_uj_cycles / evaluation.edp_uj_cycles - 1)
