"""Climbing: prices are the exact evaluator's, moves keep a mapping valid, and small layers reach their optimum."""

from collections import Counter

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group, legality
from fadiff.schedule.footprint import footprint
from fadiff.schedule.halo import halos
from fadiff.search.climb import ORDERS3, climb
from fadiff.search.conditions import Budgets, Problem
from search.networks import MACHINE, NETWORKS, alone, cut_with, draw_factors, group, machine, scheduled

WEIGHTS = (1e-4, 1e-3)
CASES = [
    ("conv_chain", group("a")),
    ("conv_chain", group("a b")),
    ("conv_chain", group("a b c", "P2")),
    ("conv_chain", group("b c", "P2 Q2")),
    ("residual", group("a b")),
    ("residual", group("a b s c", "P2 Q2")),
    ("residual", group("s c", "Q4")),
    ("separable", group("dw pw", "P4")),
    ("attention", group("k")),
    ("attention", group("k qk", "G2")),
    ("attention", group("qk av", "G2 N3 X2", "GXN")),
    ("attention", group("qk av", "N2 X4", "NX")),
    ("feed_forward", group("up down", "N2 X4", "XN")),
    ("feed_forward", group("up down", "N3 X2", "NX")),
    ("concatenation", group("b c", "P2")),
    ("concatenation", group("a b c", "Q2")),
]


def priced(problem, conditions, factors, budgets, weights=WEIGHTS, rounds=0, pairs=False):
    """Mappings ``[5, 8, rows]`` after so many rounds of climbing (none: as they are), their prices, and who moves."""
    size = 8 if pairs else 64
    parts = []
    for at in range(0, len(conditions), size):
        rows = [min(i, len(conditions) - 1) for i in range(at, at + size)]
        chosen = [conditions[i] for i in rows]
        packed = problem.rows(chosen, Budgets(*(np.float32(b)[rows] for b in budgets)), weights)
        start = np.float32(factors)[:, :, rows]
        moves = problem.moves(chosen)
        result = climb(packed, start, moves, problem.machine, problem.axes, np.int32(rounds), pairs=pairs)
        parts.append([np.asarray(array) for array in (result[0], *result[1], result[2])])
    return [np.concatenate(part, axis=-1)[..., : len(conditions)] for part in zip(*parts, strict=True)]


def ample(problem, count):
    """Budgets of a layer that has the machine to itself."""
    hardware = problem.hardware
    l2, l1 = [hardware.usable_l2_bytes] * count, [hardware.usable_l1_bytes] * count
    return Budgets(l2, l2, l1)


class Drawn:
    """Random mappings of all layers of a network in given groups, with what the evaluator and the rules say of them."""

    def __init__(self, name, one, seed):
        workload, random = NETWORKS[name], np.random.default_rng(seed)
        self.problem = Problem(workload, MACHINE)
        groups = cut_with(workload, one)
        self.names = [layer.name for layer in workload.layers if layer.is_mac]
        group_of = {member: g for g in groups for member in g.layers}
        factors = {n: draw_factors(random, workload[n], group_of[n]) for n in self.names}
        self.factors = np.stack([factors[n] for n in self.names], axis=-1)
        found = {n: c for g in groups for n, c in zip(g.layers, self.problem.conditions(g), strict=True)}
        self.conditions = [found[n] for n in self.names]
        self.schedules = [scheduled(workload, MACHINE, groups, factors, order) for order in range(len(ORDERS3))]
        halo = halos(workload, self.schedules[0].fused_edges)
        self.footprints = [
            [footprint(s, workload[n], halo.get(n, (0, 0))) for n in self.names] for s in self.schedules
        ]
        self.evaluations = [evaluate(s) for s in self.schedules]
        self.budgets = self._budgets(random)

    def _budgets(self, random):
        """Some exactly what a random order needs, some a byte less, some ample."""
        l2, l1 = MACHINE.usable_l2_bytes, MACHINE.usable_l1_bytes
        found = []
        for i in range(len(self.names)):
            f = self.footprints[random.integers(12)][i]
            kept = f.kept_weight + f.kept_input
            need = (kept + f.passing_weight + f.passing_input, kept, f.l1_bytes)
            found.append([random.choice([there, n, n - 1]) for n, there in zip(need, (l2, l2, l1), strict=True)])
        return Budgets(*np.array(found).T)

    def expected(self, i, order):
        """(price, energy, cycles) of a layer in an L3 order, from the exact evaluator and the rules."""
        schedule, f, evaluation = self.schedules[order], self.footprints[order][i], self.evaluations[order]
        number = self.problem.number[self.names[i]]
        layers, repeat = evaluation.layers, schedule.workload.layers[number].repeat
        energy, cycles = float(layers.energy.total[number]), float(layers.cycles.total[number])
        kept = f.kept_weight + f.kept_input
        used = kept + f.passing_weight + f.passing_input
        broken = {v.rule for v in (*legality.spatial(schedule), *legality.complete(schedule), *legality.whole(schedule))
                  if self.names[i] in v.layers}
        fits = (used <= self.budgets.l2_bytes[i] and kept <= self.budgets.kept_bytes[i]
                and f.l1_bytes <= self.budgets.l1_bytes[i])
        price = (WEIGHTS[0] * energy + WEIGHTS[1] * cycles) * repeat + 1e-3 * used / MACHINE.usable_l2_bytes
        return (price if fits and not broken else np.inf), energy, cycles
