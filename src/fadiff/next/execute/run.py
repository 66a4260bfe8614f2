"""Executing a schedule: random tensors in, every word counted, every output compared with a direct computation."""

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from fadiff.next.execute.data import Words, as_operand, pads, random_words
from fadiff.next.execute.group import Given, GroupRun
from fadiff.next.execute.reference import add_output, mac_output
from fadiff.next.execute.result import Absence, Execution, ExecutionError, LayerRun, Mismatch, Overflow, Peak
from fadiff.next.schedule import Group, Schedule
from fadiff.workload import Layer, Workload

Progress = Callable[[str, int, int], None]
"""Called with the name of the layer at work, MACs done and MACs in all."""


def execute(schedule: Schedule, *, seed: int = 0, progress: Progress | None = None) -> Execution:
    """Runs a schedule on random integers, moving real tiles between memories, and counts every word.

    Nothing here is shared with the cost model: counts are of what moved. A schedule that does not fit is run all the
    same, and its overflows reported; one whose loops cannot be walked raises :class:`ExecutionError`. Repeated layers
    run once.
    """
    # Tiles are small: threads of a matrix product would wait for each other longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        return _execute(schedule, seed, progress)


def _execute(schedule: Schedule, seed: int, progress: Progress | None) -> Execution:
    _require_order(schedule)
    start = perf_counter()
    workload = schedule.workload
    total = sum(layer.macs for layer in workload.layers)
    done = 0

    def tick(name: str, macs: int) -> None:
        nonlocal done
        done += macs
        if progress is not None:
            progress(name, done, total)

    first_memory: dict[str, Words] = {}
    expected: dict[str, Words] = {}
    layers: dict[str, LayerRun] = {}
    peaks: list[Peak] = []
    overflows: list[Overflow] = []
    mismatches: list[Mismatch] = []
    absences: list[Absence] = []
    for group in schedule.groups:
        outside = {name: _outside(workload, name, seed) for name in group.layers}
        for name in group.layers:
            expected[name] = _expected(workload, workload[name], outside[name], expected)
        given = {name: _given(workload, group, name, outside[name], first_memory) for name in group.layers}
        # An output that is never written stays wrong: no word is its own complement.
        records = {name: np.invert(expected[name]) for name in group.layers}
        run = GroupRun(schedule, group, given, records)
        run.run(tick)
        layers |= run.results()
        peaks += run.occupancy.peaks
        overflows += run.occupancy.overflows
        absences += run.absences.values()
        for name in group.layers:
            mismatches += _compare(name, records[name], expected[name])
            if run.is_drained(name):
                first_memory[name] = records[name]
        _forget(schedule, group, first_memory, expected)
    seconds = perf_counter() - start
    return Execution(layers, tuple(peaks), tuple(overflows), tuple(mismatches), tuple(absences), seconds)


def _require_order(schedule: Schedule) -> None:
    for edge in schedule.workload.edges:
        if schedule.position[edge.source] > schedule.position[edge.target]:
            raise ExecutionError(f"{edge.target} runs before {edge.source}, whose output it reads")
        if schedule.is_fused(edge) and schedule.machine.structure.fuses is None:
            raise ExecutionError(f"{edge.target} reads {edge.source} on chip, but no memory of the machine fuses")


def _outside(workload: Workload, name: str, seed: int) -> Given:
    """Network inputs and parameters of a layer, at random.

    A network input has exactly the rows and columns that its layer reads, so it needs no padding. What cannot be fused
    is such an input too: how it comes from its producer's words is not known.
    """
    layer = workload[name]
    d, number = layer.dims, workload.topological.index(name)
    shapes = {"weight": (d.G, d.K, d.C, d.R, d.S), "addend": (d.N, d.K, d.P, d.Q)}
    words: list[Words | None] = []
    for place, (operand, channels) in enumerate(zip(layer.inputs, workload.input_channels(layer), strict=True)):
        shape = shapes.get(operand.port, (d.N, channels, layer.input_rows, layer.input_cols))
        words.append(random_words(shape, seed, number, place) if operand.is_foreign else None)
    if not layer.is_mac or layer.has_weight_port:
        return Given(tuple(words), None)
    return Given(tuple(words), random_words(shapes["weight"], seed, number, len(words)))


def _given(workload: Workload, group: Group, name: str, outside: Given, first_memory: Mapping[str, Words]) -> Given:
    """All that a layer reads from the first memory: what comes from outside, and outputs of other groups."""
    layer, words = workload[name], list(outside.operands)
    for place, operand in enumerate(layer.inputs):
        if operand.source is not None and not operand.is_foreign and operand.source not in group.layers:
            producer = workload[operand.source]
            words[place] = as_operand(first_memory[operand.source], producer, layer, operand.port)
    return outside._replace(operands=tuple(words))


def _expected(workload: Workload, layer: Layer, outside: Given, expected: Mapping[str, Words]) -> Words:
    """What a layer must put out, from the expected outputs of the layers before it."""
    found: dict[str, list[tuple[Words, tuple[int, int]]]] = {"input": [], "weight": [], "addend": []}
    for operand, words in zip(layer.inputs, outside.operands, strict=True):
        if words is None:
            assert operand.source is not None
            words = as_operand(expected[operand.source], workload[operand.source], layer, operand.port)
        found[operand.port].append((words, pads(layer, operand, (words.shape[2], words.shape[3]))))
    if not layer.is_mac:
        return add_output(layer, [words for words, _ in found["addend"]])
    weight = outside.parameters if outside.parameters is not None else found["weight"][0][0]
    return mac_output(layer, found["input"], weight)


def _compare(name: str, got: Words, expected: Words) -> list[Mismatch]:
    wrong = got != expected
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return []
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return [Mismatch(name, count, wrong.size, first, int(got[first]), int(expected[first]))]


def _forget(schedule: Schedule, group: Group, first_memory: dict[str, Words], expected: dict[str, Words]) -> None:
    """Frees tensors that no later group reads."""
    done = max(schedule.position[name] for name in group.layers)
    for name in list(expected):
        if all(schedule.position[edge.target] <= done for edge in schedule.workload.consumers[name]):
            expected.pop(name)
            first_memory.pop(name, None)
