"""Predicted against executed: which differences are excused, and which are not."""

from dataclasses import replace

import pytest

from fadiff.cost import Evaluation, evaluate
from fadiff.execute import Counts, Execution, Mismatch, Overflow
from fadiff.hardware import load_hardware
from fadiff.report.agreement import compare, is_padded, verify
from fadiff.search import greedy
from fadiff.workload import Dims, Input, Layer, Workload

NOTHING = Counts(*[0] * len(Counts._fields))
NETWORK = Workload(
    "pair",
    (
        Layer("open", "mac", Dims(K=8, C=4, P=6, Q=6), (Input(None),)),
        Layer("padded", "mac", Dims(K=8, C=8, P=6, Q=6, R=3, S=3), (Input("open"),)),
    ),
)


@pytest.fixture(scope="module")
def priced() -> Evaluation:
    return evaluate(greedy(NETWORK, load_hardware("gemmini-small")))


def as_predicted(evaluation: Evaluation) -> Execution:
    """An execution that moves what the model says."""
    predicted = evaluation.layers.traffic._asdict()
    counts = {
        layer.name: Counts(**{field: int(values[i]) for field, values in predicted.items()})
        for i, layer in enumerate(evaluation.schedule.workload.layers)
    }
    return Execution(counts, dict.fromkeys(counts, NOTHING), (), (), (), 0.0)


def moved(execution: Execution, layer: str, field: str, more: int, *, warm_up: int = 0) -> Execution:
    counts, extra = dict(execution.counts), dict(execution.warm_up)
    counts[layer] = counts[layer]._replace(**{field: getattr(counts[layer], field) + more})
    extra[layer] = extra[layer]._replace(**{field: warm_up})
    return replace(execution, counts=counts, warm_up=extra)


def test_an_execution_as_predicted_holds(priced: Evaluation):
    agreement = compare(priced, as_predicted(priced))
    assert agreement.holds
    assert {count.verdict for count in agreement.words} == {"equal"}
    assert len(agreement.words) == 2 * len(Counts._fields)


@pytest.mark.parametrize("field", Counts._fields)
def test_one_word_more_than_predicted_never_passes(priced: Evaluation, field: str):
    for layer in ("open", "padded"):
        agreement = compare(priced, moved(as_predicted(priced), layer, field, 1))
        assert not agreement.words_agree
        assert [(c.layer, c.field) for c in agreement.words if c.verdict == "differs"] == [(layer, field)]


@pytest.mark.parametrize("field", Counts._fields)
def test_one_word_less_passes_only_where_padding_is_not_fetched(priced: Evaluation, field: str):
    assert not compare(priced, moved(as_predicted(priced), "open", field, -1)).holds
    excused = field in ("l3_input", "l2_input_fill")
    assert compare(priced, moved(as_predicted(priced), "padded", field, -1)).holds is excused


def test_warm_up_words_may_come_on_top_but_no_more(priced: Evaluation):
    within = compare(priced, moved(as_predicted(priced), "open", "l3_weight", 5, warm_up=5))
    assert within.holds
    (count,) = (count for count in within.words if count.verdict != "equal")
    assert (count.field, count.warm_up, count.verdict) == ("l3_weight", 5, "warm-up")
    assert not compare(priced, moved(as_predicted(priced), "open", "l3_weight", 6, warm_up=5)).holds


def test_a_wrong_output_or_an_overflow_does_not_hold(priced: Evaluation):
    wrong = Mismatch("open", 1, 10, (0, 0, 0, 0, 0), 1, 2)
    over = Overflow("open", "open", "L2", 10, 9, (("weights", 10),))
    run = as_predicted(priced)
    assert not compare(priced, replace(run, mismatches=(wrong,))).outputs_equal
    assert not compare(priced, replace(run, overflows=(over,))).buffers_hold
    assert not compare(priced, replace(run, mismatches=(wrong,))).holds
    assert not compare(priced, replace(run, overflows=(over,))).holds


def test_only_a_layer_that_reads_beyond_what_is_stored_is_padded():
    assert [is_padded(NETWORK, layer) for layer in NETWORK.layers] == [False, True]


def test_a_flattened_input_is_not_padded():
    first = Layer("conv", "mac", Dims(K=4, C=2, P=3, Q=3), (Input(None),), epilogue=("flatten",))
    network = Workload("flat", (first, Layer("fc", "mac", Dims(K=5, C=36), (Input("conv"),))))
    assert not is_padded(network, network["fc"])


def test_a_schedule_that_runs_agrees_with_its_price():
    agreement = verify(greedy(NETWORK, load_hardware("gemmini-small")))
    assert agreement.holds
    assert {count.verdict for count in agreement.words if count.layer == "open"} == {"equal"}
