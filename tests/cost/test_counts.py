"""The model's statements on a few layers whose numbers fit on the back of an envelope."""

from collections import defaultdict
from dataclasses import replace

import pytest

from fadiff.cost.evaluate import evaluate
from fadiff.hardware import Bits
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import Dims, Layer, Workload
from schedule.toys import CORES, GEMMINI, PLAIN, ROW_STATIONARY, add, conv, mac, machine_with, memory, on, schedule

CONV = conv("c", K=4, C=2, P=8, Q=8, R=3, S=3)
WEIGHTS, WINDOW_ROW, OUTPUTS, MACS = 72, 2 * 10, 256, 8 * 8 * 8 * 9
SPILLS = 4
"""Bytes of a spilled sum: words of the first memory."""


def words(given, layer="c"):
    """Words of one layer by (tensor, memory, action, what) and, summed over that, by shorter keys."""
    evaluation = evaluate(given)
    number = [each.name for each in given.workload.layers].index(layer)
    found = defaultdict(float)
    for flow, values in zip(evaluation.flows, evaluation.words[:, number], strict=True):
        memory_name = given.machine.nodes[flow.memory].name
        found[flow.tensor, memory_name, flow.action] += float(values)
        found[flow.tensor, memory_name, flow.action, flow.what] += float(values)
    return found


def alone(layer=CONV, orders=None, machine=GEMMINI, **nodes):
    """A layer on its own, with factors by node."""
    mapping = Mapping.of(machine, {node: Dims(**factors) for node, factors in nodes.items()}, orders)
    return Schedule(Workload("one", (layer,)), machine, (Group((layer.name,)),), {layer.name: mapping})


def rest(**done):
    """Sizes of the convolution, some of them done elsewhere."""
    sizes = CONV.dims._asdict()
    return {dim: -(-size // done.get(dim, 1)) for dim, size in sizes.items()}


def pair(*groups, reader=False, machine=GEMMINI):
    """Two convolutions tiled by rows, four rows a trip; perhaps a third that reads the first."""
    layers = [replace(CONV, name="u"), conv("v", "u", K=4, C=4, P=8, Q=8, R=3, S=3)]
    if reader:
        layers.append(conv("w", "u", K=1, C=4, P=8, Q=8))
    given = schedule(*layers, machine=machine, P=2)
    return replace(given, groups=groups)


# W and I.


def test_a_pinned_weight_is_fetched_once():
    assert words(alone(DRAM={"P": 8}, accumulator=rest(P=8)))["W", "DRAM", "read"] == WEIGHTS


def test_a_weight_under_a_relevant_loop_is_fetched_anew_in_every_trip_outside():
    outside = alone(orders={"DRAM": "PKGNQCRS"}, DRAM={"P": 8, "K": 2}, accumulator=rest(P=8, K=2))
    inside = alone(orders={"DRAM": "KPGNQCRS"}, DRAM={"P": 8, "K": 2}, accumulator=rest(P=8, K=2))
    assert words(outside)["W", "DRAM", "read"] == 8 * WEIGHTS
    assert words(inside)["W", "DRAM", "read"] == WEIGHTS


def test_a_weight_is_fetched_as_often_as_cut_tiles_ask_for():
    """Three tiles of three rows, the last of two, and three of the eight columns."""
    cut = alone(orders={"DRAM": "PQKGNCRS"}, DRAM={"P": 3, "Q": 3, "K": 4}, accumulator={**rest(K=4), "P": 3, "Q": 3})
    assert words(cut)["W", "DRAM", "read"] == 3 * 3 * WEIGHTS
    assert evaluate(cut).terms[0, 0] == MACS


def test_a_window_that_slides_fetches_every_row_once():
    assert words(alone(DRAM={"P": 4}, accumulator=rest(P=4)))["I", "DRAM", "read"] == 10 * WINDOW_ROW
    cut = alone(DRAM={"P": 3}, accumulator={**rest(), "P": 3})
    assert words(cut)["I", "DRAM", "read"] == 10 * WINDOW_ROW


def test_a_window_under_an_irrelevant_loop_does_not_slide():
    outside = alone(orders={"DRAM": "PKGNQCRS"}, DRAM={"P": 4, "K": 2}, accumulator=rest(P=4, K=2))
    inside = alone(orders={"DRAM": "KPGNQCRS"}, DRAM={"P": 4, "K": 2}, accumulator=rest(P=4, K=2))
    assert words(outside)["I", "DRAM", "read"] == 4 * 4 * WINDOW_ROW
    assert words(inside)["I", "DRAM", "read"] == 2 * 10 * WINDOW_ROW


def test_cut_windows_that_do_not_slide_are_as_high_as_they_are():
    """Tiles of 3, 3 and 2 rows read 5, 5 and 4."""
    cut = alone(orders={"DRAM": "PKGNQCRS"}, DRAM={"P": 3, "K": 2}, accumulator={**rest(K=2), "P": 3})
    assert words(cut)["I", "DRAM", "read"] == (5 + 5 + 4) * WINDOW_ROW


def test_what_several_lanes_want_is_read_once_and_written_in_each():
    """Lanes over K want the same input; lanes over P neighbours of it, which are read apart."""
    over_k = alone(machine=CORES, cores={"K": 2}, acc=rest(K=2))
    assert words(over_k)["I", "l2", "read"] == 10 * WINDOW_ROW
    assert words(over_k)["I", "l1", "write"] == 2 * 10 * WINDOW_ROW
    assert words(over_k)["W", "l2", "read"] == words(over_k)["W", "l1", "write"] == WEIGHTS
    over_p = alone(machine=CORES, cores={"P": 2}, acc=rest(P=2))
    assert words(over_p)["I", "l2", "read"] == words(over_p)["I", "l1", "write"] == 2 * 6 * WINDOW_ROW
    assert words(over_p)["W", "l2", "read"] == WEIGHTS
    assert words(over_p)["W", "l1", "write"] == 2 * WEIGHTS


def test_the_diagonals_of_a_row_stationary_array_share_rows():
    """Four rows of output and three of the kernel on a 3 x 4 array read six rows, each once."""
    layer = mac("c", P=4, R=3)
    given = alone(layer, machine=ROW_STATIONARY, rows={"R": 3}, cols={"P": 4})
    assert words(given)["I", "ispad", "write"] == 12 * 2
    assert words(given)["I", "glb", "read"] == 6
    two_apart = alone(replace(layer, stride=(2, 1)), machine=ROW_STATIONARY, rows={"R": 3}, cols={"P": 4})
    assert words(two_apart)["I", "glb", "read"] == 9


def test_a_tensor_passes_by_memories_that_do_not_keep_it():
    given = alone(mac("c", K=4, C=6), machine=ROW_STATIONARY, wspad={"K": 4}, pspad={"C": 6})
    assert words(given)["W", "glb", "read"] == words(given)["W", "glb", "write"] == 0
    assert words(given)["W", "DRAM", "read"] == 2 * 24
    assert words(given)["W", "wspad", "write"] == 2 * 24


# O.


def test_sums_that_leave_unfinished_go_to_the_first_memory_and_come_back():
    factors = {"DRAM": {"P": 2, "C": 2}, "accumulator": rest(P=2, C=2)}
    kept = words(alone(orders={"DRAM": "PCGNKQRS"}, **factors))
    spilled = words(alone(orders={"DRAM": "CPGNKQRS"}, **factors))
    assert kept["O", "accumulator", "write", "reload"] == kept["O", "DRAM", "read"] == 0
    assert kept["O", "DRAM", "write"] == kept["O", "accumulator", "read", "finished"] == OUTPUTS
    assert spilled["O", "accumulator", "write", "reload"] == OUTPUTS
    assert spilled["O", "DRAM", "read"] == SPILLS * OUTPUTS
    assert spilled["O", "DRAM", "write"] == OUTPUTS + SPILLS * OUTPUTS
    narrow = on(alone(orders={"DRAM": "CPGNKQRS"}, **factors), bits=Bits(spilled=8))
    assert words(narrow)["O", "DRAM", "read"] == OUTPUTS


def test_an_update_reads_the_old_sum_but_for_the_first():
    given = words(alone(accumulator=rest()))
    assert given["O", "accumulator", "write", "update"] == MACS
    assert given["O", "accumulator", "read", "update"] == MACS - OUTPUTS


def test_sums_that_meet_on_chip_never_see_the_first_memory():
    """A keeper further out takes what the innermost one cannot finish."""
    given = words(alone(orders={"l2": "CPGNKQRS"}, machine=CORES, l2={"C": 2, "P": 2}, acc=rest(C=2, P=2)))
    assert given["O", "DRAM", "write"] == OUTPUTS
    assert given["O", "DRAM", "read"] == given["O", "l2", "write", "reload"] == 0
    # l1 and the accumulator hold half of the outputs: these leave both twice, and come back once.
    assert given["O", "acc", "read", "finished"] + given["O", "acc", "read", "unfinished"] == 2 * OUTPUTS
    assert given["O", "acc", "write", "reload"] == OUTPUTS
    assert given["O", "l2", "write", "finished"] == OUTPUTS
    assert given["O", "l2", "write", "unfinished"] == given["O", "l2", "read", "reload"] == SPILLS * OUTPUTS
    assert given["O", "l2", "read", "finished"] == OUTPUTS


def test_sums_of_lanes_that_belong_to_one_output_are_added_on_the_way_up():
    """Two cores with half of the channels each: both hold a part of every output, which l2 gets as one."""
    split = words(alone(machine=CORES, cores={"C": 2}, acc=rest(C=2)))
    assert split["O", "l1", "read"] == SPILLS * 2 * OUTPUTS
    assert split["O", "l1", "write"] == SPILLS * 2 * OUTPUTS
    assert split["O", "l2", "write", "finished"] == OUTPUTS
    assert split["O", "l2", "write", "unfinished"] == 0
    whole = words(alone(machine=CORES, cores={"K": 2}, acc=rest(K=2)))
    assert whole["O", "l1", "read"] == whole["O", "l2", "write"] == OUTPUTS


def test_the_array_broadcasts_inputs_and_reduces_sums():
    unrolled = words(alone(cols={"K": 4}, rows={"C": 2}, accumulator={"R": 3, "S": 3}, registers={"P": 8, "Q": 8}))
    assert unrolled["I", "scratchpad", "read"] == MACS / 4
    assert unrolled["O", "accumulator", "write", "update"] == MACS / 2
    assert unrolled["O", "accumulator", "read", "update"] == MACS / 2 - OUTPUTS
    assert unrolled["W", "registers", "write"] == WEIGHTS
    assert unrolled["W", "registers", "read"] == MACS


def test_lanes_without_work_do_not_count():
    """Five channels on two lanes: three turns, five sums a turn of all; steps wait for the busiest lane."""
    layer = mac("c", K=5, N=4)
    given = alone(layer, accumulator={"K": 3}, cols={"K": 2}, registers={"N": 4})
    assert evaluate(given).terms[0, 0] == 3 * 4
    assert words(given)["O", "accumulator", "write", "update"] == 5 * 4
    assert words(given)["W", "registers", "read"] == 5 * 4
    assert words(given)["I", "scratchpad", "read"] == 3 * 4


def test_widths_decide_how_many_words_a_value_is():
    wide = on(alone(accumulator=rest()), bits=Bits(W=4, I=16, O=24), nodes={"scratchpad": {"word_bits": 16}})
    found = words(wide)
    assert found["W", "DRAM", "read"] == WEIGHTS / 2
    assert found["W", "scratchpad", "write"] == WEIGHTS / 4
    assert found["I", "scratchpad", "write"] == 10 * WINDOW_ROW
    assert found["O", "DRAM", "write"] == 3 * OUTPUTS


# Groups.


def test_a_fused_intermediate_never_touches_the_first_memory():
    fused = pair(Group(("u", "v"), Trips(P=2)))
    u, v = words(fused, "u"), words(fused, "v")
    assert u["O", "DRAM", "write"] == v["I", "DRAM", "read"] == v["I", "scratchpad", "write"] == 0
    assert u["O", "scratchpad", "write"] == u["O", "accumulator", "read", "finished"] == OUTPUTS
    apart = pair(Group(("u",)), Group(("v",)))
    assert words(apart, "u")["O", "DRAM", "write"] == OUTPUTS
    assert words(apart, "u")["O", "scratchpad", "write"] == 0
    assert words(apart, "v")["I", "scratchpad", "read"] == v["I", "scratchpad", "read"]


def test_a_fused_intermediate_passes_the_keepers_further_in_as_ever():
    fused, apart = (
        pair(*groups, machine=CORES) for groups in ([Group(("u", "v"), Trips(P=2))], [Group(("u",)), Group(("v",))])
    )
    for key in (("I", "l1", "write"), ("I", "l2", "read"), ("I", "l1", "read")):
        assert words(fused, "v")[key] >= words(apart, "v")[key] > 0
    assert words(fused, "v")["I", "l2", "write"] == words(fused, "v")["I", "DRAM", "read"] == 0
    assert words(fused, "u")["O", "l2", "write"] == OUTPUTS
    assert words(fused, "u")["O", "l2", "read"] == words(fused, "u")["O", "DRAM", "write"] == 0
    assert words(apart, "u")["O", "l2", "read"] == words(apart, "u")["O", "DRAM", "write"] == OUTPUTS


def test_an_intermediate_that_is_read_outside_too_is_copied_and_drained():
    groups = Group(("u", "v"), Trips(P=2)), Group(("w",))
    fused = words(pair(*groups, reader=True), "u")
    assert fused["O", "DRAM", "write"] == fused["O", "scratchpad", "write"] == OUTPUTS
    assert fused["O", "accumulator", "read", "finished"] == 2 * OUTPUTS
    # Where the memory that fuses keeps O, the copy itself leaves for outside.
    fused = words(pair(*groups, reader=True, machine=CORES), "u")
    assert fused["O", "DRAM", "write"] == fused["O", "l2", "write"] == fused["O", "l2", "read"] == OUTPUTS
    assert fused["O", "l1", "read"] == OUTPUTS


def test_a_fused_tensor_is_as_wide_as_an_output():
    wide = on(pair(Group(("u", "v"), Trips(P=2))), bits=Bits(I=8, O=16))
    narrow = pair(Group(("u", "v"), Trips(P=2)))
    assert words(wide, "u")["O", "scratchpad", "write"] == 2 * OUTPUTS
    assert words(wide, "v")["I", "scratchpad", "read"] == 2 * words(narrow, "v")["I", "scratchpad", "read"]
    assert words(wide, "u")["I", "scratchpad", "read"] == words(narrow, "u")["I", "scratchpad", "read"]


def test_a_fused_weight_is_read_where_it_was_put():
    """Past keepers of W further out, into those further in."""
    layers = mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2)
    for machine, fuses, inner in ((GEMMINI, "scratchpad", "registers"), (ROW_STATIONARY, "glb", "wspad")):
        fused = words(schedule(*layers, machine=machine), "qk")
        size = machine.bits.O // 8
        assert fused["W", "DRAM", "read"] == 0
        assert fused["W", fuses, "write"] == 0
        assert fused["W", fuses, "read"] * machine.nodes[machine.number[fuses]].word_bits / 8 > 0
        assert fused["W", inner, "write"] >= 8 * size


def test_registers_are_loaded_anew_in_every_trip_of_a_group():
    layers = mac("u", K=4, P=8, Q=8), mac("v", "u", K=4, C=4, P=8, Q=8)
    factors = {"DRAM": Dims(P=2), "cols": Dims(K=4), "registers": Dims(P=4, Q=8)}
    mappings = {
        "u": Mapping.of(GEMMINI, factors),
        "v": Mapping.of(GEMMINI, factors | {"rows": Dims(C=4)}),
    }
    fused = Schedule(Workload("dots", layers), GEMMINI, (Group(("u", "v"), Trips(P=2)),), mappings)
    apart = replace(fused, groups=(Group(("u",)), Group(("v",))))
    assert [words(fused, name)["W", "registers", "write"] for name in "uv"] == [2 * 4, 2 * 16]
    assert [words(apart, name)["W", "registers", "write"] for name in "uv"] == [4, 16]
    assert [words(fused, name)["W", "DRAM", "read"] for name in "uv"] == [4, 16]


# Add layers.


def test_addends_stream_into_the_sums_and_the_result_leaves_like_any_output():
    layers = conv("a"), conv("b", "a"), add("s", "b", "a", None, K=2, P=4, Q=4)
    values = 2 * 4 * 4
    fused, apart = (schedule(*layers, groups=groups) for groups in (None, tuple(Group((n,)) for n in "abs")))
    assert words(apart, "s")["O", "DRAM", "read", "addend"] == 3 * values
    assert words(fused, "s")["O", "DRAM", "read", "addend"] == values
    assert words(fused, "s")["O", "scratchpad", "read", "addend"] == 2 * values
    for given in (fused, apart):
        assert words(given, "s")["O", "accumulator", "write", "addend"] == 3 * values
        assert words(given, "s")["O", "accumulator", "read"] == words(given, "s")["O", "DRAM", "write"] == values
        assert evaluate(given).terms[0, 2] == 0


def test_addends_pass_the_keepers_of_outputs_in_between():
    layers = conv("a"), conv("b", "a"), add("s", "b", "a", None, K=2, P=4, Q=4)
    values = 2 * 4 * 4
    fused = words(schedule(*layers, machine=CORES), "s")
    assert fused["O", "l2", "write", "addend"] == values
    assert fused["O", "l2", "read", "addend"] == 3 * values
    assert fused["O", "l1", "write", "addend"] == fused["O", "l1", "read", "addend"] == 3 * values
    assert fused["O", "acc", "write", "addend"] == 3 * values


def test_an_add_layer_runs_on_all_instances():
    layer = add("s", None, None, K=8, P=4)
    given = Schedule(
        Workload("sum", (layer,)), machine_with(CORES, {"acc": {"words_per_cycle": 2}}), (Group(("s",)),), {}
    )
    evaluation = evaluate(given)
    term = dict(zip(evaluation.term_names, evaluation.terms[:, 0], strict=True))["acc"]
    assert term == 3 * 32 / (2 * CORES.instances(CORES.number["acc"]))
    assert evaluation.utilization == 0


# Time and energy.


def test_memories_work_side_by_side_in_as_many_instances_as_are_used():
    given = on(
        alone(machine=CORES, cores={"K": 2}, acc=rest(K=2)),
        {"l1": {"words_per_cycle": 3}, "l2": {"read_words_per_cycle": 2, "write_words_per_cycle": 1}},
    )
    evaluation, found = evaluate(given), words(given)
    terms = dict(zip(evaluation.term_names, evaluation.terms[:, 0], strict=True))
    l1 = sum(found[tensor, "l1", action] for tensor in "WIO" for action in ("read", "write"))
    read, written = (sum(found[tensor, "l2", action] for tensor in "WIO") for action in ("read", "write"))
    assert terms["l1"] == l1 / (3 * 2)
    assert terms["l2"] == max(read / 2, written)
    assert terms["acc"] == terms["reg"] == 0
    assert evaluation.layer_cycles[0] == max(terms.values())


def test_transfers_that_do_not_overlap_add_to_the_time():
    given = on(alone(DRAM={"P": 4}, accumulator=rest(P=4)), {"scratchpad": {"words_per_cycle": 2}})
    full, serial = evaluate(given), evaluate(on(given, overlap="none"))
    compute, dram, *on_chip = full.terms[:, 0]
    assert full.cycles == max(compute, dram, *on_chip)
    assert serial.cycles == max(compute, *on_chip) + dram


def test_energy_is_spent_on_every_word_and_every_mac():
    given = on(
        alone(accumulator=rest()),
        {"scratchpad": {"read_pj": 2.0, "write_pj": 5.0}, "registers": {"read_pj": 0.25, "write_pj": 0.5}},
    )
    spent, found = evaluate(given).energy_by_node_pj(), words(given)
    assert spent["mac"] == MACS * given.machine.mac_pj
    assert spent["scratchpad"] == sum(
        found[tensor, "scratchpad", action] * pj for tensor in "WIO" for action, pj in (("read", 2.0), ("write", 5.0))
    )
    assert spent["registers"] == 0.25 * found["W", "registers", "read"] + 0.5 * found["W", "registers", "write"]


def test_a_repeated_layer_costs_as_often_as_it_runs():
    once, thrice = (evaluate(alone(replace(CONV, repeat=n), accumulator=rest())) for n in (1, 3))
    assert thrice.energy_pj == pytest.approx(3 * once.energy_pj)
    assert thrice.cycles == pytest.approx(3 * once.cycles)
    assert thrice.edp_uj_cycles == pytest.approx(9 * once.edp_uj_cycles)
    assert thrice.words.tolist() == once.words.tolist()
    assert thrice.memory_words(0) == pytest.approx(3 * once.memory_words(0))


def test_a_machine_may_keep_everything_but_sums_in_its_first_memory():
    machine = replace(PLAIN, nodes=(PLAIN.nodes[0], memory("sums", "O", 2**20)))
    found = words(alone(machine=machine, sums=rest()))
    assert found["W", "DRAM", "read"] == found["I", "DRAM", "read"] == MACS
    assert found["O", "DRAM", "write"] == OUTPUTS


@pytest.mark.parametrize("stored", [(4, 4), (16, 16)])
def test_what_leaves_the_sums_is_what_the_epilogue_stores(stored):
    epilogue = "max_pool" if stored[0] < 8 else "upsample"
    layer = Layer("c", "mac", CONV.dims, CONV.inputs, epilogue=(epilogue,), out=stored)
    values = 4 * stored[0] * stored[1]
    found = words(alone(layer, machine=CORES, acc=rest()))
    assert found["O", "acc", "read", "finished"] == OUTPUTS
    assert found["O", "l1", "write"] == found["O", "l2", "write"] == found["O", "DRAM", "write"] == values
