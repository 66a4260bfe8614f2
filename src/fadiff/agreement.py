"""Whether a schedule holds up when it runs: outputs, buffers, and the words that the cost model predicts.

The executor and the cost model share no code, so where their counts agree each of them vouches for the other. What the
model counts otherwise than it happens, padding and leads, the executor computes word by word
(:mod:`fadiff.execute.result`): a single word beyond that does not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.cost import Evaluation, evaluate

if TYPE_CHECKING:
    from fadiff.execute import Execution, Mismatch, Peak
    from fadiff.schedule import Schedule

STEPS = "steps"
"""What the count of the array's steps is called; the others are accesses."""


@dataclass(frozen=True)
class WordCount:
    """One count of one execution of a layer, in words of its memory."""

    layer: str
    memory: str
    tensor: str
    way: str
    predicted: float
    executed: float
    padding: float
    """What the model counts more because padding was not read."""
    lead: float
    """What the model counts more, or less, because the layer led its group."""

    @property
    def agrees(self) -> bool:
        """Whether what moved, with padding and lead, is what the model says; words are whole bits."""
        return abs(self.predicted - self.executed - self.padding - self.lead) < TOLERANCE


TOLERANCE = 1e-3
"""Words of which whole bits are a part are told to less than this."""


@dataclass(frozen=True)
class Agreement:
    """What running a schedule showed."""

    words: tuple[WordCount, ...]
    """Every count of every layer, in the workload's order."""
    mismatches: tuple[Mismatch, ...]
    peaks: tuple[Peak, ...]
    seconds: float

    @property
    def outputs_equal(self) -> bool:
        """Whether every layer's output is that of a direct computation."""
        return not self.mismatches

    @property
    def overflows(self) -> tuple[Peak, ...]:
        """Where a memory was asked to hold more than it can."""
        return tuple(peak for peak in self.peaks if peak.overflows)

    @property
    def buffers_hold(self) -> bool:
        """Whether no memory was ever asked to hold more than it can."""
        return not self.overflows

    @property
    def words_agree(self) -> bool:
        """Whether every count is as predicted, once padding and leads are told."""
        return all(count.agrees for count in self.words)

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
    from fadiff.execute import Access, Count

    schedule = evaluation.schedule
    memories = {i: schedule.machine.nodes[i].name for i in schedule.machine.structure.memories}
    counts: list[WordCount] = []
    for i, layer in enumerate(schedule.workload.layers):
        run = execution.layers[layer.name]
        predicted: dict[Access, float] = {}
        for flow, words in zip(evaluation.flows, evaluation.words[:, i].tolist(), strict=True):
            access = Access(memories[flow.memory], flow.tensor, flow.action)
            predicted[access] = predicted.get(access, 0.0) + words
        for access in dict.fromkeys([*predicted, *run.counts]):
            told = run.counts.get(access, Count(1, 0))
            expected = predicted.get(access, 0.0)
            padding, lead = told.padding_bits / told.word_bits, told.lead_bits / told.word_bits
            counts.append(WordCount(layer.name, *access, expected, told.words, padding, lead))
        steps = float(evaluation.terms[0, i])
        counts.append(WordCount(layer.name, STEPS, "", "", steps, run.steps, 0.0, run.lead_steps))
    return Agreement(tuple(counts), execution.mismatches, execution.peaks, execution.seconds)
