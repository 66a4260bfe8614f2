"""The roofline bounds what layers attain, at every memory."""

import json
from dataclasses import asdict

import pytest

from examples import FILES
from fadiff.analysis.roofline import FULL, roofline
from fadiff.cost.evaluate import COMPUTE, evaluate
from fadiff.schedule.file import read_schedule
from schedule.toys import add, conv, mac, on, schedule

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
SLACK = 1 + 1e-9


@each_file
def test_no_layer_is_faster_than_its_roofs(path):
    evaluation = evaluate(read_schedule(path)[0])
    numbers = roofline(evaluation)
    names = [roof.memory for roof in numbers.roofs]
    for point in (*numbers.points, numbers.network):
        for roof, intensity, attainable in zip(
            numbers.roofs, point.macs_per_byte, point.attainable_macs_per_cycle, strict=True
        ):
            assert point.attained_macs_per_cycle <= attainable * SLACK
            assert attainable <= numbers.peak_macs_per_cycle
            if roof.bytes_per_cycle is not None and intensity is not None:
                assert attainable <= intensity * roof.bytes_per_cycle * SLACK
        assert point.mapped_macs_per_cycle <= numbers.peak_macs_per_cycle
    overlaps = evaluation.schedule.machine.overlap == "full"
    for point in numbers.points:
        assert point.attained_macs_per_cycle <= point.mapped_macs_per_cycle * SLACK
        if overlaps and point.bound_by != COMPUTE:
            there = point.attainable_macs_per_cycle[names.index(point.bound_by)]
            assert point.attained_macs_per_cycle == pytest.approx(there)
        if overlaps and point.bound_by == COMPUTE:
            assert point.attained_macs_per_cycle == pytest.approx(point.mapped_macs_per_cycle)
    assert numbers.network.attained_macs_per_cycle == pytest.approx(
        evaluation.utilization * numbers.peak_macs_per_cycle
    )
    assert len(numbers.points) == sum(layer.is_mac for layer in evaluation.schedule.workload.layers)
    assert json.dumps(asdict(numbers), allow_nan=False)


def test_a_layer_that_does_not_touch_a_memory_has_no_intensity_there():
    """Its input and its weights come from layers of its group, and so does the reader of its output."""
    layers = [
        mac("a", N=4, K=4, C=2),
        mac("w", N=4, K=4, C=2),
        mac("b", "a", weight="w", N=4, K=4, C=4),
        mac("c", "b", N=4, K=2, C=4),
    ]
    points = {point.layer: point for point in roofline(evaluate(schedule(*layers))).points}
    assert points["b"].macs_per_byte[0] is None
    assert points["b"].attainable_macs_per_cycle[0] == 64
    assert points["c"].macs_per_byte[0] == 32 / (8 + 8)


def test_a_memory_without_a_rate_has_no_roof():
    given = schedule(conv("a"))
    rates = {roof.memory: roof.bytes_per_cycle for roof in roofline(evaluate(given)).roofs}
    assert rates == {"DRAM": 8.0, "scratchpad": None, "accumulator": None, "registers": None}
    apart = on(given, {"DRAM": {"words_per_cycle": None, "read_words_per_cycle": 4, "write_words_per_cycle": 2}})
    assert roofline(evaluate(apart)).roofs[0].bytes_per_cycle == 6.0


def test_all_instances_of_a_memory_make_its_roof():
    given = on(schedule(conv("a")), {"accumulator": {"words_per_cycle": 2}})
    assert roofline(evaluate(given)).roofs[2].bytes_per_cycle == 8 * 2 * 4


def test_sums_have_no_point():
    given = schedule(conv("a"), add("s", "a", None, K=2, P=4, Q=4))
    assert [point.layer for point in roofline(evaluate(given)).points] == ["a"]


@each_file
def test_the_sentence_says_what_keeps_a_layer_from_all_multipliers(path):
    evaluation = evaluate(read_schedule(path)[0])
    numbers = roofline(evaluation)
    for point in numbers.points:
        busy = point.attained_macs_per_cycle / numbers.peak_macs_per_cycle
        mapped = point.mapped_macs_per_cycle / numbers.peak_macs_per_cycle
        assert (f"{1 - mapped:.0%} of its lane-steps idle (" in point.why) == (mapped < FULL)
        if busy < FULL * mapped:
            assert point.why.startswith(f"{point.bound_by} sets its time, computing takes ")
        assert (point.why == "all multipliers work all the time") == (mapped >= FULL and busy >= FULL * mapped)
    assert f"{evaluation.utilization:.0%} multiply" in numbers.network.why
