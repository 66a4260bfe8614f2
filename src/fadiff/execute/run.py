"""Executing a schedule: random tensors in, every word counted, every output compared with a direct computation."""

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from fadiff.execute.counts import Counts, Execution, Mismatch, Overflow, Peak
from fadiff.execute.group import GroupRun
from fadiff.execute.operands import Given
from fadiff.execute.reference import add_output, mac_output
from fadiff.execute.runnable import require_runnable
from fadiff.execute.tensors import Words, as_input, as_weight, random_words
from fadiff.schedule import Group, Schedule
from fadiff.workload import Layer, Workload

Progress = Callable[[str, int, int], None]
"""Called with the name of the layer at work, MACs done and MACs in all."""


def execute(schedule: Schedule, *, seed: int = 0, progress: Progress | None = None) -> Execution:
    """Runs a schedule on random int8 tensors, moving real tiles between L3, L2 and L1, and counts every word.

    Nothing here is shared with the cost model: counts are of what moved. A schedule that does not fit is run all the
    same, and its overflows reported; one whose loops cannot be walked raises :class:`ExecutionError`. Repeated layers
    run once.
    """
    # Tiles are small: threads of a matrix product would wait for each other longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        return _execute(schedule, seed, progress)


def _execute(schedule: Schedule, seed: int, progress: Progress | None) -> Execution:
    require_runnable(schedule)
    start = perf_counter()
    workload = schedule.workload
    total = sum(layer.macs for layer in workload.layers)
    done = 0

    def tick(name: str, macs: int) -> None:
        nonlocal done
        done += macs
        if progress is not None:
            progress(name, done, total)

    l3: dict[str, Words] = {}
    expected: dict[str, Words] = {}
    counts: dict[str, Counts] = {}
    warm_up: dict[str, Counts] = {}
    peaks: list[Peak] = []
    mismatches: list[Mismatch] = []
    overflows: list[Overflow] = []
    uneven: set[str] = set()
    for group in schedule.groups:
        outside = {name: _outside_words(workload, name, seed) for name in group.layers}
        for name in group.layers:
            expected[name] = _expected(workload, workload[name], outside[name], expected)
        given = {name: _given(workload, group, name, outside[name], l3) for name in group.layers}
        # An output that is never written stays wrong: no word is its own complement.
        records = {name: np.invert(expected[name]) for name in group.layers}
        run = GroupRun(schedule, group, given, records)
        run.run(tick)
        for name in group.layers:
            counts[name] = run.tallies[name].freeze()
            warm_up[name] = run.warm_up[name].freeze()
            peaks.append(Peak(group.name, name, *run.occupancy.peaks[name]))
            mismatches.extend(_compare(name, records[name], expected[name]))
            if run.is_uneven(name):
                uneven.add(name)
            if run.is_drained(name):
                l3[name] = records[name]
        for memory in (run.occupancy.l2, run.occupancy.l1):
            overflows.extend(memory.overflows.values())
        _forget(schedule, group, l3, expected)
    seconds = perf_counter() - start
    return Execution(counts, warm_up, tuple(peaks), tuple(mismatches), tuple(overflows), seconds, frozenset(uneven))


def _outside_words(workload: Workload, name: str, seed: int) -> Given:
    """Network inputs and parameters of a layer, at random.

    A network input has exactly the rows and columns that its layer reads, so it needs no padding. What cannot be fused
    is such an input too: how it comes from its producer's words is not known.
    """
    layer = workload[name]
    d = layer.dims
    number = workload.topological.index(name)
    weight_shape = (d.G, d.K, d.C, d.R, d.S)
    words: list[Words | None] = []
    for place, (operand, channels) in enumerate(zip(layer.inputs, workload.input_channels(layer), strict=True)):
        if not operand.is_foreign:
            words.append(None)
            continue
        if operand.port == "input":
            shape = (d.N, channels, layer.input_rows, layer.input_cols)
        else:
            shape = weight_shape if operand.port == "weight" else (d.N, d.K, d.P, d.Q)
        words.append(random_words(shape, seed, number, place))
    if not layer.is_mac or layer.has_weight_port:
        return Given(tuple(words), None)
    return Given(tuple(words), random_words(weight_shape, seed, number, len(words)))


def _given(workload: Workload, group: Group, name: str, outside: Given, l3: Mapping[str, Words]) -> Given:
    """All that a layer reads from L3: what comes from outside, and outputs of layers of other groups."""
    words = list(outside.inputs)
    for place, operand in enumerate(workload[name].inputs):
        if operand.source is not None and not operand.is_foreign and operand.source not in group.layers:
            words[place] = l3[operand.source]
    return outside._replace(inputs=tuple(words))


def _expected(workload: Workload, layer: Layer, outside: Given, expected: Mapping[str, Words]) -> Words:
    """What a layer must put out, from the expected outputs of the layers before it."""
    d = layer.dims
    inputs: list[Words] = []
    weight = outside.parameters
    for operand, words in zip(layer.inputs, outside.inputs, strict=True):
        if operand.source is not None and not operand.is_foreign:
            stored, producer = expected[operand.source], workload[operand.source]
            if operand.port == "input":
                words = as_input(stored, producer, layer, d.N)
            elif operand.port == "weight":
                words = as_weight(stored, producer, (d.G, d.K, d.C, d.R, d.S))
            else:
                words = stored.reshape(d.N, d.K, d.P, d.Q)
        assert words is not None
        if operand.port == "weight":
            weight = words
        else:
            inputs.append(words)
    if not layer.is_mac:
        return add_output(layer, inputs)
    assert weight is not None
    return mac_output(layer, inputs, weight)


def _compare(name: str, got: Words, expected: Words) -> list[Mismatch]:
    wrong = got != expected
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return []
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return [Mismatch(name, count, wrong.size, first, int(got[first]), int(expected[first]))]


def _forget(schedule: Schedule, group: Group, l3: dict[str, Words], expected: dict[str, Words]) -> None:
    """Frees tensors that no later group reads."""
    workload = schedule.workload
    done = max(schedule.position[name] for name in group.layers)
    for name in list(expected):
        if all(schedule.position[edge.target] <= done for edge in workload.consumers[name]):
            expected.pop(name)
            l3.pop(name, None)
