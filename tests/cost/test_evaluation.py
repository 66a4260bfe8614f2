"""What an evaluation says of a priced schedule: its parts sum to the whole, and its terms explain its time."""

from dataclasses import replace

import numpy as np
import pytest

from examples import FILES, first, second
from fadiff.cost.evaluate import COMPUTE, evaluate
from fadiff.cost.flows import flow_table
from fadiff.schedule.file import read_schedule

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@every_file
def test_the_parts_of_a_cost_sum_to_the_whole(path):
    evaluation = evaluate(read_schedule(path)[0])
    machine, repeat = evaluation.schedule.machine, evaluation.repeat
    spent = evaluation.energy_by_node_pj()
    assert list(spent) == ["mac", *(memory.name for memory in machine.memories)]
    assert sum(spent.values()) == pytest.approx(evaluation.energy_pj, rel=1e-12)
    np.testing.assert_allclose(evaluation.energy_parts_pj.sum(axis=0), evaluation.layer_energy_pj, rtol=1e-12)
    assert float(evaluation.layer_energy_pj @ repeat) == pytest.approx(evaluation.energy_pj, rel=1e-12)
    assert float(evaluation.layer_cycles @ repeat) == pytest.approx(evaluation.cycles, rel=1e-12)
    words = sum(evaluation.memory_words(node) for node in machine.structure.memories)
    assert words == pytest.approx(float((evaluation.words @ repeat).sum()), rel=1e-12)
    assert evaluation.edp_uj_cycles == pytest.approx(evaluation.energy_pj * 1e-6 * evaluation.cycles, rel=1e-12)
    assert 0 < evaluation.utilization <= 1


@every_file
def test_the_slowest_part_explains_the_time(path):
    evaluation = evaluate(read_schedule(path)[0])
    names, terms = evaluation.term_names, evaluation.terms
    assert names[:2] == (COMPUTE, evaluation.schedule.machine.memories[0].name)
    for i, binding in enumerate(evaluation.binding):
        assert terms[names.index(binding), i] == terms[:, i].max()
        on_chip = max(terms[0, i], *terms[2:, i])
        serial = evaluation.schedule.machine.overlap == "none"
        assert evaluation.layer_cycles[i] == (on_chip + terms[1, i] if serial else max(on_chip, terms[1, i]))


@every_file
def test_no_part_of_a_cost_is_negative_and_every_value_is_counted_whole(path):
    evaluation = evaluate(read_schedule(path)[0])
    assert np.all(evaluation.words >= 0)
    assert np.all(evaluation.terms >= 0)
    for flow, words in zip(evaluation.flows, evaluation.words, strict=True):
        bits = words * evaluation.schedule.machine.nodes[flow.memory].word_bits
        np.testing.assert_allclose(bits, np.round(bits), rtol=1e-12, err_msg=str(flow))


@every_file
def test_every_mac_reads_its_operands_and_every_output_leaves(path):
    """What arrives at the multipliers and what leaves the machine, whatever happens in between."""
    schedule = read_schedule(path)[0]
    evaluation, structure = evaluate(schedule), schedule.machine.structure
    flows = evaluation.flows
    consumed = {edge.source for edge in schedule.fused_edges}
    inside = {edge.source for edge in schedule.workload.edges}
    outside = {edge.source for edge in schedule.workload.edges if not schedule.is_fused(edge)}
    for i, layer in enumerate(schedule.workload.layers):
        words = {flow: evaluation.words[n, i] for n, flow in enumerate(flows)}
        to_macs = {flow: w for flow, w in words.items() if flow.other is None and flow.what in ("operand", "fused")}
        assert (sum(to_macs.values()) > 0) == layer.is_mac
        first_bits = schedule.machine.memories[0].word_bits
        finished = sum(w for flow, w in words.items() if flow.memory == 0 and flow.what == "finished") * first_bits
        leaves = layer.name not in inside or layer.name in outside
        assert finished == pytest.approx(layer.stored_words * schedule.machine.bits.O * leaves, rel=1e-12)
        copied = sum(
            w * schedule.machine.nodes[flow.memory].word_bits
            for flow, w in words.items()
            if flow.memory == structure.fuses and flow.action == "write" and flow.what in ("fused", "finished")
        )
        if layer.name in consumed:
            assert copied == pytest.approx(layer.stored_words * schedule.machine.bits.O, rel=1e-12)


def test_fusion_saves_what_it_promises():
    """The residual of three layers moves its two intermediates over the scratchpad alone."""
    schedule = first("r1_resid")
    evaluation, table = evaluate(schedule), flow_table(schedule.machine.structure)
    values = [layer.stored_words for layer in schedule.workload.layers]

    def words(memory, what):
        here = [flow.memory == memory and (flow.action, flow.what) == ("write", what) for flow in table]
        return evaluation.words[here].sum(axis=0).tolist()

    assert words(0, "finished") == [0, 0, values[2]]
    assert words(1, "fused") == [values[0], values[1], 0]


def test_ties_bind_where_work_is_done_before_memories_from_the_inside_out():
    evaluation = evaluate(second("gemmini_conv"))
    tied = np.ones_like(evaluation.terms)
    names = evaluation.term_names
    assert replace(evaluation, terms=tied).binding == (COMPUTE,)
    tied[0] = 0
    assert replace(evaluation, terms=tied).binding == (names[-1],)
    tied[-1] = 0
    assert replace(evaluation, terms=tied).binding == (names[-2],)
