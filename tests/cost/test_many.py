"""One schedule on many machines: as each of them says on its own."""

from dataclasses import replace

import numpy as np
import pytest

from fadiff import evaluate, load_machine, load_schedule, violations
from fadiff.cost.many import evaluate_on
from fadiff.errors import FadiffError
from fadiff.hardware import Axis, Machine, Memory
from fadiff.hardware.machine import Bits, Vector

SCHEDULE = load_schedule("docs/img/resnet18.gemmini-large.json")


def other(random: np.random.Generator) -> Machine:
    """The machine with every number drawn anew."""

    def node(one: Memory | Axis) -> Memory | Axis:
        if isinstance(one, Axis):
            return replace(one, size=int(random.choice([one.size // 2, one.size, 2 * one.size])))
        rates = ("words_per_cycle", "read_words_per_cycle", "write_words_per_cycle")
        told = {what: value * random.uniform(0.1, 2) for what in rates if (value := getattr(one, what)) is not None}
        told["bytes"] = None if one.bytes is None else max(2, int(one.bytes * random.choice([0.5, 1, 2])))
        return replace(one, read_pj=random.uniform(0, 9), write_pj=random.uniform(0, 9), **told)

    machine = SCHEDULE.machine
    return replace(
        machine,
        nodes=tuple(node(one) for one in machine.nodes),
        mac_pj=random.uniform(0, 2),
        overlap=str(random.choice(["full", "none"])),
        bits=Bits(*(int(random.choice([4, 8])) for _ in range(3)), 32, 32),
    )


def test_prices_and_what_fits_are_those_of_each_machine_on_its_own():
    random = np.random.default_rng(0)
    machines = [SCHEDULE.machine, *(other(random) for _ in range(40))]
    prices = evaluate_on(SCHEDULE, machines)
    for i, machine in enumerate(machines):
        there = replace(SCHEDULE, machine=machine, bound=None)
        alone = evaluate(there)
        assert prices.energy_pj[i] == pytest.approx(alone.energy_pj, rel=1e-12)
        assert prices.cycles[i] == pytest.approx(alone.cycles, rel=1e-12)
        assert prices.edp_uj_cycles[i] == pytest.approx(alone.edp_uj_cycles, rel=1e-12)
        assert prices.fits[i] == (not violations(there)), machine
    assert 2 <= prices.fits.sum() <= 30, "both happen"


def test_no_machine_is_no_price():
    assert evaluate_on(SCHEDULE, []).edp_uj_cycles.shape == (0,)


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (load_machine("eyeriss"), "its nodes are others"),
        (replace(SCHEDULE.machine, vector=Vector(8, 1.0)), "only one of them has a vector unit"),
        (
            replace(SCHEDULE.machine, online_softmax=not SCHEDULE.machine.online_softmax),
            "only one of them computes a softmax in pieces",
        ),
    ],
)
def test_a_machine_of_another_kind_is_told(machine: Machine, why: str):
    with pytest.raises(FadiffError, match=rf"is not like gemmini-large, for which the schedule is: {why}"):
        evaluate_on(SCHEDULE, [machine])
