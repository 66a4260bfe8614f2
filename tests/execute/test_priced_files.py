"""The priced schedules, executed: right to the bit, within every memory, and as many words as the model says."""

from collections import Counter

import numpy as np
import pytest

from examples import FIRST_FILES, SECOND_FILES
from execute.builders import accounted_bits, price, run
from fadiff.cost.evaluate import evaluate
from fadiff.execute import execute
from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.file import read_schedule
from fadiff.schedule.rules import Examined

SMALL = [path for path in FIRST_FILES if path.parent.name == "small"]


@pytest.fixture(scope="module", params=SECOND_FILES, ids=lambda path: path.stem)
def executed(request):
    plan, stated = read_schedule(request.param)
    return plan, stated, execute(plan)


def test_a_priced_schedule_computes_its_network(executed):
    _, _, result = executed
    assert result.mismatches == ()


def test_a_priced_schedule_never_holds_more_than_fits_says(executed):
    plan, _, result = executed
    assert result.overflows == ()
    examined = Examined(plan)
    need = needs(examined.nest, examined.placement, pack_machine(plan.machine)).total
    number = {layer.name: i for i, layer in enumerate(plan.workload.layers)}
    assert len(result.peaks) == len(plan.workload.layers) * (len(plan.machine.memories) - 1)
    for peak in result.peaks:
        most = float(np.asarray(need[plan.machine.number[peak.memory]])[number[peak.layer]])
        assert peak.bits <= 8 * most, peak


def test_what_was_executed_costs_what_the_file_states(executed):
    plan, stated, result = executed
    energy, cycles = price(plan, result)
    assert energy == pytest.approx(stated.energy_pj, rel=1e-9)
    assert cycles == pytest.approx(stated.cycles, rel=1e-9)


def test_executed_and_explained_words_are_the_models_word_for_word(executed):
    plan, _, result = executed
    assert_as_modelled(plan, result)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_schedules_of_the_first_edition_run_as_modelled(path):
    plan, _ = read_schedule(path)
    assert_as_modelled(plan, run(plan))


def assert_as_modelled(plan, result):
    """Every count of every layer, in bits."""
    model = evaluate(plan)
    for i, layer in enumerate(plan.workload.layers):
        said = Counter()
        for flow, row in zip(model.flows, np.asarray(model.words), strict=True):
            memory = plan.machine.nodes[flow.memory]
            bits = row[i] * memory.word_bits
            assert bits == pytest.approx(round(bits), abs=1e-6)
            said[memory.name, flow.tensor, flow.action] += round(bits)
        ran = result.layers[layer.name]
        assert accounted_bits(ran) == +said, layer.name
        assert ran.macs == layer.macs
        assert ran.steps + ran.lead_steps == model.terms[0][i]
