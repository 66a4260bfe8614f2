"""Populations of small networks on small machines."""

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np

from fadiff.hardware import Machine, Memory
from fadiff.schedule.rules import violations
from fadiff.search.evolutionary.genome import Encoding
from fadiff.search.evolutionary.repair import Population, Repair
from fadiff.search.exact.conditions import Task
from oracle.machines import random_machine
from search.networks import GEMMINI, sized

CHIP = sized(GEMMINI, cols=4, rows=2, accumulator=32, scratchpad=100)
"""A machine too small for most of what one would like to do on it."""


def encoding_of(workload, machine) -> Encoding:
    return Encoding(Task(workload, machine))


@cache
def repair_of(workload, machine) -> Repair:
    return Repair(encoding_of(workload, machine))


def random_rows(code: Encoding, seed: int, count: int) -> np.ndarray:
    return code.random(np.random.default_rng(seed), count)


def schedules(repair: Repair, population: Population) -> list:
    """All schedules of a population, none of which breaks a rule."""
    found = [repair.schedule(population, i) for i in range(len(population.rows))]
    assert [violations(schedule) for schedule in found] == [[]] * len(found)
    return found


def tight_machine(seed: int) -> Machine:
    """A random machine with memories that hold a few values of each tensor."""
    rng = Random(f"tight {seed}")
    found = random_machine(rng)
    # A sum that is upsampled on its way becomes up to four finished outputs.
    bits = {"W": found.bits.W, "I": found.bits.I, "O": max(4 * found.bits.O, found.bits.sums)}

    def small(memory: Memory) -> Memory:
        least = -(-sum(bits[tensor] for tensor in memory.keeps) // 8)
        doubled = rng.random() < 0.2
        return replace(memory, bytes=least * (1 + doubled) * rng.choice((1, 2, 6, 30, 300)), double_buffered=doubled)

    first, *others = found.nodes
    nodes = (first, *(small(node) if isinstance(node, Memory) else node for node in others))
    return replace(found, nodes=nodes, online_softmax=rng.random() < 0.7)
