"""Slopes of the model along edges to fuse and the machine's numbers; those along factors are the descent's own."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cost.batches import (
    BATCH,
    CORES,
    EDGES,
    GEMMINI,
    LAYERS,
    MACHINES,
    WORKLOAD,
    batch_of,
    costs_of,
    drawn,
    on_jax,
    relaxed,
    sigma_of,
    stacked,
)
from fadiff.cost.evaluate import evaluate
from fadiff.cost.flows import flow_table
from fadiff.cost.model import network_cost
from fadiff.hardware import Memory, pack_machine
from fadiff.schedule.arrays import pack_schedule

two_machines = pytest.mark.parametrize("machine", [GEMMINI, CORES], ids=["gemmini", "cores"])


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def fractions(seed, low=0.05, high=0.95):
    return np.random.default_rng(seed).uniform(low, high, EDGES)


@two_machines
def test_slopes_along_energies_and_widths_are_what_they_pay_for(machine):
    """Energies: the words (and MACs) that cost them. Widths: energy is linear in them, but for the MACs'."""
    batch = batch_of(machine)
    packed, numbers = on_jax(stacked(batch)), on_jax(pack_machine(machine))

    def energy(numbers):
        costs = costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers)
        return jnp.sum(network_cost(LAYERS, costs).energy_pj)

    slope, evaluations = jax.grad(energy)(numbers), [evaluate(schedule) for schedule in batch]
    words = sum(evaluation.words @ evaluation.repeat for evaluation in evaluations)
    for i, node in enumerate(machine.structure.memories):
        for action in ("read", "write"):
            here = [(flow.memory, flow.action) == (node, action) for flow in flow_table(machine.structure)]
            assert float(getattr(slope, f"{action}_pj")[i]) == pytest.approx(words[here].sum(), rel=1e-12)
        spent = sum(evaluation.energy_by_node_pj()[machine.nodes[node].name] for evaluation in evaluations)
        assert float(slope.word_bits[i]) == pytest.approx(-spent / float(numbers.word_bits[i]), rel=1e-12)
    assert float(slope.mac_pj) == BATCH * WORKLOAD.macs
    widths = ("bits_w", "bits_i", "bits_o", "bits_sums", "bits_spilled")
    by_bits = sum(float(getattr(slope, width)) * float(getattr(numbers, width)) for width in widths)
    total = sum(evaluation.energy_pj for evaluation in evaluations)
    assert by_bits + BATCH * WORKLOAD.macs * machine.mac_pj == pytest.approx(total, rel=1e-12)
    for name in ("lanes", "usable_bytes", "words_per_cycle", "read_words_per_cycle", "write_words_per_cycle", "serial"):
        assert np.all(getattr(slope, name) == 0), name


def test_slopes_of_time_are_those_of_the_slowest_memory():
    """Along its rate; and, since a sum of tensors runs on all instances, along the lanes above it."""
    rates = iter((90.1, 31.3, 1.1, 0.9))  # no two memories are equally slow by chance
    nodes = (replace(n, words_per_cycle=next(rates)) if isinstance(n, Memory) else n for n in GEMMINI.nodes)
    machine = replace(GEMMINI, nodes=tuple(nodes), overlap="full")
    batch = [replace(schedule, machine=machine) for schedule in batch_of(GEMMINI)]
    packed, numbers = on_jax(stacked(batch)), on_jax(pack_machine(machine))

    def cycles(numbers):
        return jnp.sum(costs_of(machine.structure, LAYERS, packed.mapping, packed.fusion, numbers).cycles)

    slope = jax.grad(cycles)(numbers)
    evaluations = [evaluate(schedule) for schedule in batch]
    bound, lanes = dict.fromkeys(evaluations[0].term_names, 0.0), dict.fromkeys(machine.structure.axes, 0.0)
    sums = [layer.is_mac for layer in WORKLOAD.layers].index(False)
    for evaluation in evaluations:
        slowest = machine.number.get(evaluation.binding[sums], 0)
        for axis in machine.structure.axes_between(0, slowest):
            lanes[axis] -= evaluation.layer_cycles[sums] / machine.nodes[axis].size
        for name, spent in zip(evaluation.binding, evaluation.layer_cycles, strict=True):
            bound[name] += float(spent)
    assert len([name for name, spent in bound.items() if spent]) > 1
    for i, memory in enumerate(machine.memories):
        expected = -bound[memory.name] / memory.words_per_cycle
        assert float(slope.words_per_cycle[i]) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope.lanes, list(lanes.values()), rtol=1e-12)
    assert min(lanes.values()) < 0
    assert np.all(slope.read_pj == 0)


@two_machines
def test_slopes_along_sigma_are_differences(machine):
    """The model is a polynomial in every sigma, away from decisions: no layer enters or leaves a group here."""
    batch = batch_of(machine)
    packed, sigma = stacked(batch), np.stack([fractions(i, 0.6, 0.9) for i in range(BATCH)])

    def energy(sigma, packed):
        return relaxed(machine, packed, sigma).energy_pj.sum()

    slope = jax.grad(energy)(jnp.asarray(sigma), on_jax(packed))
    step = 1e-6
    for i, edge in np.ndindex(BATCH, EDGES):
        moved = [sigma.copy(), sigma.copy()]
        moved[0][i, edge] += step
        moved[1][i, edge] -= step
        difference = (energy(moved[0], packed) - energy(moved[1], packed)) / (2 * step)
        assert float(slope[i, edge]) == pytest.approx(difference, rel=1e-5, abs=1e-3)


# Fusion between its ends.


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
def test_sigma_at_its_ends_is_the_fused_and_the_unfused_schedule(machine):
    for schedule in batch_of(machine):
        packed = pack_schedule(schedule)
        fused = relaxed(machine, packed, sigma_of(schedule))
        np.testing.assert_array_equal(fused.energy_pj, evaluate(schedule).layer_energy_pj)
        apart = relaxed(machine, packed, np.zeros(EDGES))
        groups = tuple(replace(group, layers=(name,)) for group in schedule.groups for name in group.layers)
        unfused = replace(schedule, groups=groups)
        same = pack_schedule(unfused).fusion.tile == packed.fusion.tile
        for i, layer in enumerate(WORKLOAD.layers):
            if np.all(same[:, i]):  # its group cuts it as it would be cut alone
                assert apart.energy_pj[i] == evaluate(unfused).layer_energy_pj[i], layer.name


@pytest.mark.parametrize("seed", range(3))
def test_fractions_of_sigma_enter_where_the_paper_puts_them(seed):
    """Drain x (1 - product of sigmas), copy x (1 - product of (1 - sigma)), fill x (1 - sigma), reads in place."""
    table, fuses, sums = flow_table(GEMMINI.structure), GEMMINI.structure.fuses, GEMMINI.structure.keepers("O")[-1]
    packed, sigma = pack_schedule(drawn(GEMMINI, seed)), fractions(seed, 0.6, 0.9)
    at = {(edge.source, edge.target): value for edge, value in zip(WORKLOAD.edges, sigma, strict=True)}
    number = {layer.name: i for i, layer in enumerate(WORKLOAD.layers)}
    stored = {layer.name: layer.stored_words for layer in WORKLOAD.layers}
    found = relaxed(GEMMINI, packed, sigma).words
    # Where an edge decides nothing but its own share: all in groups as before, this one half fused.
    halved = relaxed(GEMMINI, packed, np.full(EDGES, 0.5)).words

    def words(layer, tensor, memory, action, what, of=found):
        here = [(f.tensor, f.memory, f.action, f.what) == (tensor, memory, action, what) for f in table]
        return sum(float(row[number[layer]]) for row, yes in zip(of, here, strict=True) if yes)

    both, neither = at["a", "b"] * at["a", "s"], (1 - at["a", "b"]) * (1 - at["a", "s"])
    assert words("a", "O", 0, "write", "finished") == pytest.approx(stored["a"] * (1 - both))
    assert words("a", "O", fuses, "write", "fused") == pytest.approx(stored["a"] * (1 - neither))
    assert words("b", "O", 0, "write", "finished") == pytest.approx(stored["b"] * (1 - at["b", "s"]))
    assert words("d", "O", 0, "write", "finished") == stored["d"]
    for edge, tensor in ((("a", "b"), "I"), (("s", "d"), "I"), (("qk", "av"), "I"), (("k", "qk"), "W")):
        for flow in ((tensor, 0, "read", "operand"), (tensor, fuses, "write", "operand")):
            share = words(edge[1], *flow) / words(edge[1], *flow, of=halved)
            assert share == pytest.approx((1 - at[edge]) / (1 - 0.5)), (edge, flow)
    fused_addends = at["b", "s"] + at["a", "s"]
    assert words("s", "O", fuses, "read", "addend") == pytest.approx(fused_addends * stored["s"])
    assert words("s", "O", 0, "read", "addend") == pytest.approx((2 - fused_addends) * stored["s"])
    for what in ("update", "reload"):
        for name in number:
            assert words(name, "O", sums, "write", what) == words(name, "O", sums, "write", what, of=halved)
