"""Random schedules on random machines: executed and explained words are those of the brute-force walk."""

from collections import Counter

import pytest

from execute.builders import accounted_bits
from fadiff.execute import execute
from fadiff.execute.traffic import Traffic
from oracle.price import bill
from oracle.schedules import KINDS, draw

SEEDS = range(9_000, 9_006)
"""Any other range will do: every schedule that can be drawn must agree."""


def walked_bits(plan, name) -> Counter:
    """Bits by (memory, tensor, way) that the brute-force walk of a layer finds."""
    bits, found = plan.machine.bits, Counter()
    for (tensor, memory, way, kind), values in bill(plan, name).moves.items():
        first = plan.machine.number[memory] == 0
        width = {"sum": bits.spilled if first else bits.sums, "finished": bits.O, "operand": getattr(bits, tensor, 0)}
        found[memory, tensor, way] += values * width[kind]
    return +found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_any_schedule_is_exact_and_moves_what_the_walk_finds(kind, seed):
    plan = draw(kind, seed)
    result = execute(plan)
    assert result.mismatches == ()
    for layer in plan.workload.layers:
        ran = result.layers[layer.name]
        assert accounted_bits(ran) == walked_bits(plan, layer.name), layer.name
        assert ran.steps + ran.lead_steps == bill(plan, layer.name).steps


@pytest.mark.parametrize("kind", ["single", "chain"])
def test_blocks_looked_up_count_as_blocks_walked(kind, monkeypatch):
    plan = draw(kind, 3)
    remembering = execute(plan).layers

    def forgetful(self, item, block, sums):
        return self._walk(item, block, sums)

    monkeypatch.setattr(Traffic, "below", forgetful)
    assert execute(plan).layers == remembering
