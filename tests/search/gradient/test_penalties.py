"""Penalties are zero exactly where a schedule keeps the rules, and soft needs are exact where groups are decided."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from fadiff.errors import FadiffError
from fadiff.hardware import pack_machine
from fadiff.schedule import Mapping, Schedule
from fadiff.schedule.arrays import pack_layers, pack_schedule, unpack_mapping
from fadiff.schedule.capacity import needs
from fadiff.schedule.nest import Nest
from fadiff.schedule.rules import violations
from fadiff.search.gradient import DescentSettings, pack_problem
from fadiff.search.gradient.penalties import PENALTIES, Scene
from fadiff.search.space import map_space, settle
from fadiff.workload import DIMS
from search.gradient.toys import ROOMY, TIGHT, chain, pair, residual, seen
from search.networks import FLAT, at_dram, dims, group, mac, network, sized


def drawn(workload, machine, groups, seed) -> Schedule:
    """Random mappings over nodes and in orders that the machine finds useful."""
    random, space = np.random.default_rng(seed), map_space(machine)
    bare = Schedule(workload, machine, groups, at_dram(workload, machine).mappings)
    fusion = pack_schedule(bare).fusion
    useful = np.array([[node in space.nodes[dim] for dim in DIMS] for node in range(len(machine.nodes))])
    mappings = {}
    for i, layer in enumerate(workload.layers):
        if layer.is_mac:
            factors = settle(np.where(useful, random.integers(1, 4, useful.shape), 1.0), np.asarray(fusion.tile)[:, i])
            shared = np.asarray(fusion.shared)[:, i].astype(int).tolist()
            orders = [choices[random.integers(len(choices))] for choices in space.orders]
            mappings[layer.name] = unpack_mapping(factors, shared, orders)
    return replace(bare, mappings=mappings)


GROUPS = [
    (residual(), (group("a b s c", "P2"),)),
    (residual(), (group("a"), group("b s", "P4"), group("c"))),
    (residual(), (group("a b s"), group("c"))),
    (chain(), (group("a b", "P4"), group("c d e", "P2"))),
    (chain(), (group("a"), group("b c d e"))),
]


@pytest.mark.parametrize("machine", [ROOMY, FLAT], ids=lambda machine: machine.name)
@pytest.mark.parametrize(("workload", "groups"), GROUPS)
def test_on_decided_groups_the_soft_needs_are_the_exact_ones(workload, groups, machine):
    for seed in range(4):
        schedule = drawn(workload, machine, groups, seed)
        packed = pack_schedule(schedule)
        nest = Nest(machine.structure, pack_layers(workload), packed.mapping, packed.fusion)
        exact = needs(nest, packed.placement, pack_machine(machine)).total
        _, soft = seen(schedule)
        assert np.allclose(soft, [exact[memory] for memory in machine.structure.memories[1:]], rtol=1e-4, atol=0.1)


def test_a_legal_schedule_has_no_penalty():
    legal = at_dram(residual(), ROOMY, group("a b s c", "P2"))
    legal = replace(legal, mappings={n: replace(m, orders=_useful(ROOMY)) for n, m in legal.mappings.items()})
    assert violations(legal) == []
    assert set(seen(legal)[0].values()) == {0}
    unfused, _ = seen(replace(legal, groups=tuple(group(name) for name in "absc")))
    assert set(unfused.values()) == {0}


def _useful(machine):
    return tuple(orders[0] for orders in map_space(machine).orders)


def mapped(workload, machine, groups=None, at_dram="GKNPQCRS", **factors) -> Schedule:
    """Factors by node, the same in every layer; `at_dram` is the order of the first memory's loops."""
    given = {name: dims(text) for name, text in factors.items()}
    mapping = replace(Mapping.of(machine, given), orders=(at_dram, *_useful(machine)[1:]))
    groups = groups or tuple(group(name) for name in workload.topological)
    return Schedule(workload, machine, groups, {layer.name: mapping for layer in workload.layers if layer.is_mac})


ALL_INSIDE = {"accumulator": "K8 C8 R3", "registers": "P8"}


def test_what_does_not_fit_is_penalized_by_its_logarithm():
    fits, _ = seen(mapped(pair(), sized(ROOMY, accumulator=1024, scratchpad=320), **ALL_INSIDE))
    assert set(fits.values()) == {0}
    over, held = seen(mapped(pair(), sized(ROOMY, accumulator=1024, scratchpad=136), **ALL_INSIDE))
    assert held[0].tolist() == [3 * 64 + 10 * 8] * 2
    assert over["mem"] == pytest.approx(2 * np.log(2) ** 2, rel=1e-3)


def test_too_many_lanes_are_penalized_axis_by_axis():
    inside = {"accumulator": "C8 R3", "registers": "P8"}
    assert set(seen(mapped(pair(), ROOMY, cols="K4", DRAM="K2", **inside))[0].values()) == {0}
    over = seen(mapped(pair(), ROOMY, cols="K8", **inside))[0]
    assert over["spatial"] == pytest.approx(2 * np.log(2) ** 2, rel=1e-3)


def test_a_fused_producer_must_finish_its_sums():
    spilling = {"DRAM": "C8 P8", "accumulator": "K8 R3", "at_dram": "GCRSKNPQ"}
    assert seen(mapped(pair(), ROOMY, **spilling))[0]["complete"] == 0
    fused = mapped(pair(), ROOMY, (group("a b"),), **spilling)
    assert {violation.rule for violation in violations(fused)} == {"complete"}
    # Every sum leaves eight times, once for each channel.
    assert seen(fused)[0]["complete"] == pytest.approx(np.log(8))
    assert seen(mapped(pair(), ROOMY, (group("a b"),), **ALL_INSIDE))[0]["complete"] == 0


def test_tiles_must_fit_together_where_an_edge_is_fused():
    strided = network(mac("a", "K8 C4 P8 R3"), mac("b", "K8 C8 P4 R3", "a", stride=(2, 1)))
    fused = seen(mapped(strided, ROOMY, (group("a b", "P2"),), **{**ALL_INSIDE, "registers": "P4"}))[0]
    assert fused["align"] == 0
    # Three tiles of the sink are two rows each; what the descent can say of its producer is another matter.
    apart = seen(mapped(strided, ROOMY, (group("a"), group("b")), **ALL_INSIDE))[0]
    assert apart["align"] == 0


def test_a_hinge_has_no_pull_at_its_border():
    for squared, pull in ((False, 1), (True, 0.2)):
        slope = jax.grad(lambda excess, squared=squared: Scene(*[None] * 3, squared).hinge(excess))
        assert float(slope(0.0)) == 0
        assert float(slope(0.1)) == pytest.approx(pull)


def test_tokens_cannot_be_shared_across_a_transposed_weight():
    workload = network(
        mac("k", "G2 N4 K4 C3", epilogue=("transpose",)),
        mac("qk", "G2 N6 K4 C4", None, ("k", "weight")),
        mac("av", "G2 N6 K4 C4", "qk"),
    )
    whole = np.asarray(pack_problem(workload, TIGHT, DescentSettings(restarts=1)).arrays.ends.whole)[:, 0, :2]
    assert whole.T.tolist() == [[0, 1, 1, 1], [0, 0, 0, 0]]


def test_weights_are_those_of_the_table_unless_told_otherwise():
    settings = DescentSettings().weighing(align=0.5)
    told = {penalty.name: weight for penalty, weight in zip(PENALTIES, settings.weights, strict=True)}
    assert told == {**{penalty.name: penalty.weight for penalty in PENALTIES}, "align": 0.5}
    with pytest.raises(FadiffError, match="no penalty 'alin': name one of valid, spatial, mem, align"):
        settings.weighing(alin=1.0)
