"""Executing a schedule: random tensors in, every word counted, every output compared with a direct computation."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from fadiff.execute.group import GroupRun
from fadiff.execute.result import Execution, ExecutionError, LayerRun, Mismatch, Peak
from fadiff.execute.tensors import Tensors, Words, direct_output
from fadiff.schedule import Schedule

Progress = Callable[[str, int, int], None]
"""Called with the name of the layer at work, MACs done and MACs in all."""


def execute(schedule: Schedule, *, seed: int = 0, progress: Progress | None = None) -> Execution:
    """Runs a schedule on random integers, moving real tiles between memories, and counts every word.

    Nothing here is shared with the cost model: counts are of what moved. A schedule that does not fit is run all the
    same, and its overflows reported; one whose loops cannot be walked raises :class:`ExecutionError`. Repeated layers
    run once.
    """
    _require_order(schedule)
    start, done, total = perf_counter(), 0, sum(layer.macs for layer in schedule.workload.layers)

    def tick(name: str, macs: int) -> None:
        nonlocal done
        done += macs
        if progress is not None:
            progress(name, done, total)

    outside: dict[str, dict[int, Words]] = {}
    expected, executed = (Tensors(schedule.workload, seed, outside) for _ in range(2))
    layers: dict[str, LayerRun] = {}
    peaks: list[Peak] = []
    mismatches: list[Mismatch] = []
    for group in schedule.groups:
        # Tiles are small: threads of a matrix product would wait for each other longer than they work.
        with threadpool_limits(limits=1, user_api="blas"):
            for name in group.layers:
                expected.stored[name] = direct_output(schedule.workload, schedule.workload[name], expected)
                # An output that is never written stays wrong: no word is its own complement.
                executed.stored[name] = np.invert(expected.stored[name])
            run = GroupRun(schedule, group, executed)
            run.run(tick)
        peaks += run.occupancy.peaks.values()
        for name in group.layers:
            layers[name] = run.result(name)
            mismatches += _compare(name, executed.stored[name], expected.stored[name])
            outside.pop(name, None)
        position = max(schedule.position[name] for name in group.layers)
        for name in list(expected.stored):
            if all(schedule.position[edge.target] <= position for edge in schedule.workload.consumers[name]):
                del expected.stored[name], executed.stored[name]
    return Execution(layers, tuple(peaks), tuple(mismatches), perf_counter() - start)


def _require_order(schedule: Schedule) -> None:
    for edge in schedule.workload.edges:
        if schedule.position[edge.source] > schedule.position[edge.target]:
            raise ExecutionError(f"{edge.target} runs before {edge.source}, whose output it reads")
        if schedule.is_fused(edge) and (schedule.machine.structure.fuses is None or not edge.fusible):
            raise ExecutionError(f"{edge.target} cannot read {edge.source} on chip: put them into different groups")


def _compare(name: str, got: Words, expected: Words) -> list[Mismatch]:
    wrong = got != expected
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return []
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return [Mismatch(name, count, wrong.size, first, int(got[first]), int(expected[first]))]
