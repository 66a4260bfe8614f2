"""Whether a schedule holds up when it runs: outputs, buffers, and the words that the cost model predicts.

The executor and the cost model share no code, so where their counts agree each of them vouches for the other. They
may differ in three ways, and no other:

- *padding*: the model counts padding as data, the executor generates it, so a layer with a padded input may fetch
  fewer words of it;
- *warm-up*: producers that cannot run ahead of their group's sink within its first iteration do so before it, and the
  model leaves those extra passes out. The executor counts them apart;
- *lead*: a layer that runs ahead of its group has less left to do in the last iterations, and may need fewer passes
  over its weights and inputs than one per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fadiff.cost import Evaluation, evaluate

if TYPE_CHECKING:
    from jax import Array

    from fadiff.execute import Execution, Mismatch, Overflow, Peak
    from fadiff.schedule import Schedule
    from fadiff.workload import Layer, Workload

Verdict = Literal["equal", "padding", "lead", "warm-up", "differs"]

FETCHED_INPUT = frozenset({"l3_input", "l2_input_fill"})
"""Counts that padding makes smaller."""


@dataclass(frozen=True)
class WordCount:
    """One count of one execution of a layer; `field` is named as the cost model and the executor name it."""

    layer: str
    field: str
    predicted: int
    executed: int
    warm_up: int
    """The part of `executed` that moved in warm-up iterations."""
    verdict: Verdict
    """equal; padding or lead: below, as may be; warm-up: above by no more than that; differs: nothing excuses it."""


@dataclass(frozen=True)
class Agreement:
    """What running a schedule showed."""

    words: tuple[WordCount, ...]
    """Every count of every layer, in the workload's order."""
    mismatches: tuple[Mismatch, ...]
    overflows: tuple[Overflow, ...]
    peaks: tuple[Peak, ...]
    seconds: float

    @property
    def outputs_equal(self) -> bool:
        """Whether every layer's output is that of a direct computation."""
        return not self.mismatches

    @property
    def buffers_hold(self) -> bool:
        """Whether no memory was ever asked to hold more than it can."""
        return not self.overflows

    @property
    def words_agree(self) -> bool:
        """Whether every count is as predicted, or differs in one of the three ways it may."""
        return all(count.verdict != "differs" for count in self.words)

    @property
    def holds(self) -> bool:
        """Whether all three are so."""
        return self.outputs_equal and self.buffers_hold and self.words_agree


def verify(schedule: Schedule, *, seed: int = 0) -> Agreement:
    """Run a schedule word by word on random data, and compare with what the cost model says."""
    from fadiff.execute import execute

    return compare(evaluate(schedule), execute(schedule, seed=seed))


def compare(evaluation: Evaluation, execution: Execution) -> Agreement:
    """Predicted against executed, count by count."""
    predicted: dict[str, Array] = evaluation.layers.traffic._asdict()
    workload = evaluation.schedule.workload
    counts: list[WordCount] = []
    for i, layer in enumerate(workload.layers):
        executed, warm_up = execution.counts[layer.name]._asdict(), _warm_up(execution, layer.name)
        padded = is_padded(workload, layer)
        for field, values in predicted.items():
            expected = round(float(np.asarray(values)[i]))
            extra = warm_up.get(field, 0)
            less: Verdict = "padding" if padded and field in FETCHED_INPUT else "differs"
            if layer.name in execution.uneven and less == "differs":
                less = "lead"
            verdict = _verdict(expected, executed[field], extra, less)
            counts.append(WordCount(layer.name, field, expected, executed[field], extra, verdict))
    return Agreement(tuple(counts), execution.mismatches, execution.overflows, execution.peaks, execution.seconds)


def is_padded(workload: Workload, layer: Layer) -> bool:
    """Whether a layer reads rows or columns beyond those its producers store.

    Network inputs come padded, and so does what cannot be fused.
    """
    return any(
        edge.port == "input"
        and edge.fusible
        and "flatten" not in workload[edge.source].epilogue
        and (workload[edge.source].stored[0] < layer.input_rows or workload[edge.source].stored[1] < layer.input_cols)
        for edge in workload.producers[layer.name]
    )


def _warm_up(execution: Execution, layer: str) -> dict[str, int]:
    return execution.warm_up[layer]._asdict() if layer in execution.warm_up else {}


def _verdict(predicted: int, executed: int, warm_up: int, less: Verdict) -> Verdict:
    """`less` is the verdict on a count below the prediction."""
    if executed == predicted:
        return "equal"
    if executed < predicted:
        return less
    return "warm-up" if executed <= predicted + warm_up else "differs"
