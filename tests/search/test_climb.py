"""Climbing: prices are the exact evaluator's, moves keep a mapping valid, and small layers reach their optimum."""

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group, legality
from fadiff.schedule.footprint import footprint
from fadiff.schedule.halo import halos
from fadiff.search.conditions import Budgets, Problem
from fadiff.search.options import Row, adapted, from_dram, paired, pinned, scattered, solve
from fadiff.search.options import alone as best_alone
from fadiff.search.space import SLIDING_ORDERS3, useful_slots
from search.exhaustive import every_mapping
from search.networks import (
    MACHINE,
    NETWORKS,
    alone,
    cut_with,
    draw_factors,
    group,
    mac,
    machine,
    network,
    scheduled,
    words,
)  # fmt: skip
from search.rows import ample, climbed, priced

WEIGHTS = (1e-4, 1e-3)
GROUPS = [
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
DRAWS = 6


class Drawn:
    """Random mappings of all layers of a network cut into groups, each in every L3 order of the search."""

    def __init__(self, name, one, seed):
        self.workload, random = NETWORKS[name], np.random.default_rng(seed)
        self.problem = Problem(self.workload, MACHINE)
        groups = cut_with(self.workload, one)
        self.names = [layer.name for layer in self.workload.layers if layer.is_mac]
        conditions = {n: c for g in groups for n, c in zip(g.layers, self.problem.conditions(g), strict=True)}
        self.conditions = [conditions[n] for n in self.names]
        factors = {n: draw_factors(random, self.workload[n], g) for g in groups for n in g.layers if n in self.names}
        self.factors = np.stack([factors[n] for n in self.names], axis=-1)
        self.schedules = [
            scheduled(self.workload, MACHINE, groups, factors, order) for order in range(len(SLIDING_ORDERS3))
        ]
        self.evaluations = [evaluate(schedule) for schedule in self.schedules]
        halo = halos(self.workload, self.schedules[0].fused_edges)
        self.footprints = [
            [footprint(schedule, self.workload[n], halo.get(n, (0, 0))) for n in self.names]
            for schedule in self.schedules
        ]
        self.budgets = self._budgets(random)

    def _budgets(self, random):
        """Ample, exactly what the layer needs in some order, or a byte less."""
        found = []
        for i in range(len(self.names)):
            needed = self.needs(i, int(random.integers(len(SLIDING_ORDERS3))))
            there = (MACHINE.usable_l2_bytes, MACHINE.usable_l2_bytes, MACHINE.usable_l1_bytes)
            found.append([random.choice([t, n, n, n - 1]) for n, t in zip(needed, there, strict=True)])
        return Budgets(*np.array(found).T)

    def needs(self, i, order):
        """Bytes of L2, bytes of L2 that stay, and bytes of L1, as the integer rules count them."""
        f = self.footprints[order][i]
        kept = f.kept_weight + f.kept_input
        return kept + f.passing_weight + f.passing_input, kept, f.l1_bytes

    def expected(self, i, order):
        """(price, energy, cycles) of a layer, by the exact evaluator; an infinite price if it may not run like this."""
        schedule, name = self.schedules[order], self.names[i]
        number = self.problem.number[name]
        costs = self.evaluations[order].layers
        energy, cycles = float(costs.energy.total[number]), float(costs.cycles.total[number])
        used = self.needs(i, order)
        fits = all(need <= budget[i] for need, budget in zip(used, self.budgets, strict=True))
        broken = [v for v in (*legality.spatial(schedule), *legality.complete(schedule)) if name in v.layers]
        # A softmax under X needs complete sums in the consumer: the rule names the group, its last layer is at fault.
        broken += [v for v in legality.whole(schedule) if v.layers[-1] == name]
        paid = (WEIGHTS[0] * energy + WEIGHTS[1] * cycles) * schedule.workload.layers[number].repeat
        paid += 1e-3 * used[0] / MACHINE.usable_l2_bytes
        return (paid if fits and not broken else np.inf), energy, cycles


@pytest.fixture(scope="module")
def drawn():
    return [Drawn(name, one, seed) for name, one in GROUPS for seed in range(DRAWS)]


def test_prices_are_the_exact_evaluators_and_infinite_where_a_rule_is_broken(drawn):
    finite = infinite = 0
    for one in drawn:
        found = priced(one.problem, one.conditions, one.factors, one.budgets, WEIGHTS)
        for i in range(len(one.names)):
            orders = [one.expected(i, order) for order in range(len(SLIDING_ORDERS3))]
            assert found.price[i] == pytest.approx(min(price for price, _, _ in orders), rel=1e-5)
            if np.isinf(found.price[i]):
                infinite += 1
                continue
            finite += 1
            chosen = found.order[i]
            assert (found.energy_pj[i], found.cycles[i]) == pytest.approx(orders[chosen][1:], rel=1e-5)
            used, kept, l1_bytes = one.needs(i, chosen)
            # The rules round up the share of a window that is read from L3.
            assert np.ceil(found.kept[i] + found.passing[i] - 1e-3) == used
            assert (np.ceil(found.kept[i] - 1e-3), found.l1_bytes[i]) == (kept, l1_bytes)
    assert min(finite, infinite) > 50


def climbing_rows(random):
    """Layers of all networks in their groups, some with little room, from starts that fit and starts that do not."""
    for name, one in GROUPS:
        workload = NETWORKS[name]
        problem = Problem(workload, MACHINE)
        for member, condition in zip(one.layers, problem.conditions(one), strict=True):
            if not workload[member].is_mac:
                continue
            for start in (
                from_dram(problem, condition),
                pinned(problem, condition),
                draw_factors(random, workload[member], one, lambda dim: useful_slots(dim, MACHINE)),
            ):
                room = random.choice([1.0, 0.5, 0.1], size=3) * (1024, 1024, 256)
                yield problem, condition, start, np.minimum(room, room[0])


def test_climbing_keeps_products_and_budgets_and_never_worsens_a_row():
    improved = 0
    for problem, condition, start, room in climbing_rows(np.random.default_rng(0)):
        budgets = Budgets(*room[:, None])
        before = priced(problem, [condition], start[:, :, None], budgets, WEIGHTS)
        factors, after, _ = climbed(problem, [condition], start[:, :, None], budgets, WEIGHTS, rounds=100)
        assert words(factors[:, :, 0]) == problem.private_sizes(condition)
        assert (factors == np.rint(factors)).all()
        assert after.price <= before.price
        if np.isfinite(after.price):
            assert after.kept + after.passing <= room[0]
            assert after.kept <= room[1]
            assert after.l1_bytes <= room[2]
        improved += bool(after.price < before.price)
    assert improved > 40


def test_a_climb_that_stops_early_goes_on_from_where_it_stopped():
    workload = NETWORKS["conv_chain"]
    problem = Problem(workload, MACHINE)
    (condition,) = problem.conditions(Group(("a",)))
    budgets = ample(MACHINE, 1)
    start = from_dram(problem, condition)[:, :, None]
    once, price, moving = climbed(problem, [condition], start, budgets, WEIGHTS, rounds=100)
    assert not moving.any()
    step = start
    for _ in range(100):
        step, stepped, moving = climbed(problem, [condition], step, budgets, WEIGHTS, rounds=1)
        if not moving.any():
            break
    assert np.array_equal(step, once)
    assert stepped.price == price.price


def test_the_rows_of_a_chunk_do_not_touch_each_other():
    problem = Problem(NETWORKS["conv_chain"], MACHINE)
    conditions = [problem.conditions(Group((name,)))[0] for name in "abc"]
    rows = [Row(c, start(problem, c), 1024, 1024, 256) for c in conditions for start in (from_dram, pinned)]
    together = solve(problem, rows, WEIGHTS, pairs=False)
    for i, row in enumerate(rows):
        (factors,) = np.moveaxis(solve(problem, [row], WEIGHTS, pairs=False).factors, -1, 0)
        assert np.array_equal(factors, together.factors[:, :, i])


@pytest.mark.parametrize("start", [from_dram, pinned, scattered], ids=lambda start: start.__name__)
@pytest.mark.parametrize(("name", "one"), GROUPS, ids=str)
def test_every_start_covers_the_layer_inside_its_shared_loops(start, name, one):
    problem = Problem(NETWORKS[name], MACHINE)
    more = () if start is not scattered else (np.random.default_rng(0),)
    for condition in problem.conditions(one):
        if problem.workload.layers[condition.layer].is_mac:
            factors = start(problem, condition, *more)
            assert words(factors) == problem.private_sizes(condition)
            assert factors[0, 3] <= MACHINE.rows
            assert factors[0, 0] * factors[0, 2] <= MACHINE.cols


@pytest.mark.parametrize(("name", "one"), GROUPS, ids=str)
def test_a_mapping_made_for_a_layer_alone_adapts_to_its_shared_loops(name, one):
    workload, random = NETWORKS[name], np.random.default_rng(0)
    problem = Problem(workload, MACHINE)
    for member, condition in zip(one.layers, problem.conditions(one), strict=True):
        if workload[member].is_mac:
            whole = draw_factors(random, workload[member], Group((member,)))
            assert words(whole) == list(workload[member].dims)
            part = adapted(problem, condition, whole)
            assert words(part) == problem.private_sizes(condition)
            assert (whole % part == 0).all()


SMALL_LAYERS = {
    "gemm": mac("a", "N8 K8 C8"),
    "gemm of 12 rows": mac("a", "N12 K6 C8"),
    "convolution": mac("a", "K4 C4 P4 Q4 R3 S3"),
    "strided convolution": mac("a", "K4 C2 P6 Q6 R3 S3", stride=(2, 2)),
    "depthwise": mac("a", "G8 P4 Q4 R3 S3"),
    "odd convolution": mac("a", "K6 C10 P5 Q3 R3"),
}
SMALL_MACHINES = {
    "roomy": machine(),
    "tight": machine(l1_bytes=64, l2_bytes=96),
    "tiny": machine(l1_bytes=16, l2_bytes=40),
    "lopsided": machine(rows=8, cols=2, l1_bytes=512, l2_bytes=128, overlap="none"),
    "im2col": machine(l1_bytes=64, l2_bytes=256, spatial_rows=("C", "R", "S")),
}


@pytest.mark.parametrize("chip", SMALL_MACHINES)
@pytest.mark.parametrize("layer", SMALL_LAYERS)
def test_a_small_layer_reaches_the_optimum_of_all_its_mappings(layer, chip):
    """Of all factorizations over the useful slots, in all L3 orders of the search."""
    hardware, workload = SMALL_MACHINES[chip], network(SMALL_LAYERS[layer])
    space = every_mapping(workload, hardware, alone("a"), "a", useful_slots)
    best = int((space.energy_pj * space.cycles).argmin())
    weights = (1 / space.energy_pj[best], 1 / space.cycles[best])
    problem = Problem(workload, hardware)
    conditions = problem.conditions(Group(("a",)))
    found = paired(problem, best_alone(problem, conditions, weights, seed=0, starts=16), weights)[conditions[0]]
    price = weights[0] * found.energy_pj + weights[1] * found.cycles
    assert price.min() == pytest.approx(space.best(weights), rel=1e-4)
