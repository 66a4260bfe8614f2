"""DOSA's method on a fixed machine, and the search without fusion."""

import time
from functools import cache, partial

import jax
import numpy as np
import pytest

from cli.command import MACHINE as CHIP
from cli.command import NETWORK, answer, write
from fadiff.cost import evaluate, load_schedule, save_schedule
from fadiff.hardware import load_hardware
from fadiff.schedule.legality import violations
from fadiff.search import joint as joint_module
from fadiff.search.deadline import OutOfTimeError
from fadiff.search.driver import OBJECTIVES, Incumbent, Settings, search
from fadiff.search.greedy import greedy
from fadiff.search.layerwise import LayerwiseOptions, layerwise, layerwise_tuned
from fadiff.search.layerwise.descent import Fixed, acting, descend, init, loss_and_gradient, to_point
from fadiff.search.layerwise.mapspace import ORDER1, ORDERS3, SPATIAL, T1, pack_mapspace, ranks3
from fadiff.search.layerwise.method import TUNED
from fadiff.search.layerwise.rounding import choose_orders, round_point
from fadiff.search.layerwise.starts import draw, normalizers, rounds
from fadiff.workload import DIMS, Dims
from search.dosa import MIXED, SMALL, STARTS, cost_and_penalty, ones, stationary
from search.exhaustive import every_mapping
from search.networks import NETWORKS, add, alone, mac, machine, network

SHORT = LayerwiseOptions(rounds=2, steps=90, round_every=40, learning_rate=1e-2)
"""Rates a hundred times the published ones, so that few steps go far."""


def random_point(space, seed, count) -> np.ndarray:
    """Real factors ``[3, 8, count, layers]``, some below 1, some whose product exceeds the size."""
    random = np.random.default_rng(seed)
    size = np.asarray(space.exact.layers.size)[None, :, None]
    shape = (3, 8, count, size.shape[-1])
    drawn = np.where(
        random.random(shape) < 0.4, random.uniform(0.7, 0.99, shape), size ** random.uniform(0.05, 0.6, shape)
    )
    return np.where(space.exact.free, drawn, 1.0)


def by_layer(space, point, start, orders):
    """Factors and orders of one start as the hand-written model takes them."""
    factors, order = {}, {}
    for layer, k in zip(space.workload.layers, space.kind, strict=True):
        factors[layer.name] = [dict(zip(DIMS, slot[:, start, k].tolist(), strict=True)) for slot in point]
        order[layer.name] = int(orders[start, k])
    return factors, order


# The loss


LOSS = jax.jit(loss_and_gradient)
ROOMS = {"tight": machine(l1_bytes=64, l2_bytes=100), "im2col": machine(spatial_rows=("C", "R", "S"), l1_bytes=400)}


@pytest.mark.parametrize("room", ROOMS)
def test_the_loss_is_what_a_calculation_by_hand_gives(room):
    hardware = ROOMS[room]
    space = pack_mapspace(MIXED, hardware)
    point = random_point(space, 0, STARTS)
    orders = np.random.default_rng(1).integers(0, 3, point.shape[2:])
    found, _ = LOSS(space.internal, np.float32(point), ranks3(orders))
    for start in range(STARTS):
        cost, penalty = cost_and_penalty(MIXED, hardware, *by_layer(space, point, start, orders))
        # The two identical layers are one to the search, so its penalty counts them once.
        once = {**by_layer(space, point, start, orders)[0]}
        _, twin = cost_and_penalty(network(MIXED["again"]), hardware, once, by_layer(space, point, start, orders)[1])
        assert penalty > twin > 0
        assert found[start] == pytest.approx(cost * (1 + penalty - twin), rel=1e-4)


@pytest.mark.parametrize("room", ROOMS)
def test_the_gradient_is_that_of_finite_differences(room):
    """The weight of the penalties, the EDP itself, is held fixed."""
    hardware, workload = ROOMS[room], network(*MIXED.layers[1:])
    space = pack_mapspace(workload, hardware)
    point = random_point(space, 3, STARTS)
    orders = np.random.default_rng(4).integers(0, 3, point.shape[2:])
    gradient = np.asarray(LOSS(space.internal, np.float32(point), ranks3(orders))[1])
    for start in (0, 1):
        cost, _ = cost_and_penalty(workload, hardware, *by_layer(space, point, start, orders))
        expected = np.zeros((3, 8, point.shape[3]))
        for slot, d, k in zip(*np.nonzero(np.asarray(space.exact.free)[:, :, 0]), strict=True):
            sides = []
            for sign in (1, -1):
                moved = point.copy()
                moved[slot, d, start, k] += sign * 1e-5
                moved_cost, penalty = cost_and_penalty(workload, hardware, *by_layer(space, moved, start, orders))
                sides.append(moved_cost + cost * penalty)
            expected[slot, d, k] = (sides[0] - sides[1]) / 2e-5
        assert np.abs(expected).max() > 0
        free = np.asarray(space.exact.free)[:, :, 0]
        assert gradient[:, :, start][free] == pytest.approx(expected[free], rel=1e-3, abs=1e-4 * np.abs(expected).max())


def test_a_step_descends_on_factors_over_normalizers():
    space = pack_mapspace(MIXED, SMALL)
    point, units = np.float32(random_point(space, 5, STARTS)), np.float32(normalizers(space, np.random.default_rng(0)))
    ranks, scale = np.float32(ranks3(stationary(point))), np.linspace(1, 2, STARTS, dtype=np.float32)
    gradient = np.asarray(LOSS(space.internal, point, ranks)[1])
    after = descend(space.internal, Fixed(units, ranks, scale, 0.5), init(point / units), 1)
    free = np.broadcast_to(space.exact.free, point.shape)
    # After one step Adam's mean of gradients is a tenth of the first one, and it has gone one rate downhill.
    expected = np.where(free, gradient * units / scale[:, None], 0)
    assert 10 * np.asarray(after.adam.mu) == pytest.approx(expected, rel=1e-4, abs=1e-4 * float(np.abs(expected).max()))
    moved = np.asarray(after.variables) - point / units
    assert moved == pytest.approx(-0.5 * np.sign(np.asarray(after.adam.mu)), abs=1e-4)


def test_factors_below_one_act_as_one():
    values = np.float32([0.3, 1 - 1e-6, 1, 1 + 1e-6, 1.2, 3])
    assert acting(values).tolist() == pytest.approx([1, 1, 1, 1, 1.2, 3])
    assert jax.grad(lambda x: acting(x).sum())(values).tolist() == [0, 1, 1, 1, 1, 1]


# The descent


def descended(space, point, rate, steps):
    """Factors after so many steps, from one point in all starts."""
    units = normalizers(space, np.random.default_rng(0))
    wide = np.repeat(point, STARTS, axis=2)
    orders, cost = choose_orders(space.internal, wide, stationary(wide))
    fixed = Fixed(np.float32(units), np.float32(ranks3(orders)), np.float32(cost), rate)
    state = descend(space.internal, fixed, init(np.float32(wide / units)), steps)
    return np.asarray(to_point(space.internal, state.variables, np.float32(units)), dtype=np.float64)[:, :, :1]


def test_at_published_rates_spatial_factors_stay_where_the_start_put_them():
    """A quarter of the array in each direction, which is far from best, is what the method leaves it at."""
    hardware = load_hardware("gemmini-small")
    space = pack_mapspace(network(mac("a", "K64 C64 P28 Q28 R3 S3")), hardware)
    point = ones(space)
    point[SPATIAL, [2, 3], 0, 0] = 4
    point[T1, 4, 0, 0] = 4
    slow, fast = (descended(space, point, rate, 500) for rate in (7.5e-5, 7.5e-3))
    moved = np.abs(slow - point)[..., 0, 0]
    assert 0.1 < moved[SPATIAL].max() < 1
    assert 0.05 < moved[T1, 6:].max() < 0.2
    assert moved[T1, 4:6].max() > 0.5
    assert round_point(space, slow)[SPATIAL, [2, 3], 0, 0].tolist() == [4, 4]
    assert round_point(space, fast)[SPATIAL, [2, 3], 0, 0].tolist() == [16, 16]


# The method


class Watched(Incumbent):
    """Every schedule that is offered must be legal, and fuse nothing."""

    def offer(self, schedule):
        assert violations(schedule) == []
        assert schedule.fused_edges == ()
        return super().offer(schedule)


def offered(method, workload, hardware, **settings):
    incumbent = Watched(settings.get("objective", "edp"))
    incumbent.offer(greedy(workload, hardware))
    incumbent.found = None
    statuses = list(method(workload, hardware, Settings(**settings), incumbent))
    return incumbent, statuses


@cache
def found(name, objective="edp"):
    workload = NETWORKS.get(name, MIXED)
    return offered(partial(layerwise, options=SHORT), workload, machine(l1_bytes=64, l2_bytes=64), objective=objective)


@pytest.mark.parametrize("name", [*NETWORKS, "mixed"])
def test_all_that_is_offered_is_legal_and_unfused(name):
    incumbent, statuses = found(name)
    assert incumbent.offered == 1 + SHORT.rounds * 3 * STARTS
    assert [status.step for status in statuses] == [40, 80, 90] * 2
    assert all(0 <= status.legal_share <= 1 for status in statuses)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_descent_improves_on_its_starts(objective):
    hardware = machine(l1_bytes=64, l2_bytes=64)
    space = pack_mapspace(MIXED, hardware, objective)
    drawn = rounds(space, np.random.default_rng(0), greedy(MIXED, hardware), STARTS, SHORT.reject_over)
    starts = [next(drawn) for _ in range(SHORT.rounds)]
    best = min(choose_orders(space.exact, each.point, each.orders)[1].min() for each in starts)
    reached = found("mixed", objective)[0].found
    cost = {"edp": reached.edp_uj_cycles, "energy": reached.energy_pj * 1e-6, "latency": reached.cycles}
    assert cost[objective] < 0.99 * best


def test_mappings_stay_in_the_map_space():
    schedule = found("mixed")[0].found.schedule
    for mapping in schedule.mappings.values():
        assert mapping.l2 == Dims()
        assert mapping.order1 == ORDER1
        assert mapping.order3 in ORDERS3
    assert schedule.mappings["conv"] == schedule.mappings["again"]


@pytest.mark.parametrize(
    ("sizes", "l1_bytes", "l2_bytes", "worst"),
    [
        ("K8 C8 P4 Q4 R3", 128, 128, 1.0001),
        ("G12 P12 Q12 R3 S3", 256, 256, 1.0001),
        ("K12 C12 P9 Q6 R3 S3", 256, 300, 1.25),
        ("K12 C8 P8 Q4 R3 S3", 128, 96, 1.40),
        ("N36 K24 C30", 256, 256, 1.60),
    ],
)
def test_how_far_from_the_best_of_its_map_space_it_ends(sizes, l1_bytes, l2_bytes, worst):
    """At the published rate; against every mapping that the method could reach."""
    workload, hardware = network(mac("a", sizes)), machine(l1_bytes=l1_bytes, l2_bytes=l2_bytes)

    def slots(dim, _):
        # t0 and t1 of N, P, Q are the same to this loop order.
        return (0, 2, 4) if dim in "GKC" else (1, 4) if dim in "NPQ" else (2, 4)

    space = every_mapping(workload, hardware, alone("a"), "a", slots, [(ORDER1, ORDER1, order3) for order3 in ORDERS3])
    best = (space.energy_pj * space.cycles).min() * 1e-6
    options = LayerwiseOptions(rounds=2, steps=300, round_every=100)
    edp = offered(partial(layerwise, options=options), workload, hardware)[0].found.edp_uj_cycles
    assert best * (1 - 1e-9) <= edp <= best * worst


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for name, seed in (("a", 3), ("b", 3)):
        result = search(MIXED, SMALL, partial(layerwise, options=SHORT), Settings(seed=seed))
        assert result.stopped == "done"
        save_schedule(tmp_path / name, result.found.schedule)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    points = [draw(pack_mapspace(MIXED, SMALL), np.random.default_rng(seed), 1) for seed in (3, 4)]
    assert not (points[0] == points[1]).all()


def test_restarts_say_how_many_starts_a_round_has():
    options = LayerwiseOptions(starts=2, rounds=1, steps=1)
    incumbent, _ = offered(partial(layerwise, options=options), MIXED, SMALL, restarts=STARTS)
    assert incumbent.offered == 1 + STARTS


def test_a_network_of_sums_alone_has_nothing_to_map():
    workload = network(add("a", "K4 P4 Q4", None, None), add("b", "K4 P4 Q4", "a", None))
    assert offered(layerwise, workload, machine())[1] == []


@pytest.mark.parametrize("name", ["residual", "attention"])
def test_the_tuned_search_fuses_nothing(name, monkeypatch):
    """Its descent, which takes long to compile, is told so too, and left out here as if there were no time for it."""
    assert TUNED.descent is not None
    assert (TUNED.fuse, TUNED.descent.fuse) == (False, False)
    monkeypatch.setattr(joint_module, "SHORTEST_DESCENT_SECONDS", 1e9)
    workload, hardware = NETWORKS[name], machine(l1_bytes=64, l2_bytes=96)
    incumbent = Watched("edp")
    first = incumbent.offer(greedy(workload, hardware))
    with pytest.raises(OutOfTimeError):
        list(layerwise_tuned(workload, hardware, Settings(deadline=time.monotonic() + 1e6), incumbent))
    assert incumbent.offered > 1
    assert incumbent.best.edp_uj_cycles <= first.edp_uj_cycles


@pytest.mark.parametrize("method", ["layerwise", "layerwise-tuned"])
def test_both_are_methods_of_the_command(tmp_path, method):
    files = [write(tmp_path, "net.yaml", NETWORK), "--hardware", write(tmp_path, "chip.yaml", CHIP)]
    made = answer("optimize", *files, "--method", method, "--budget", "2s", "-o", tmp_path / "made.json")
    assert made["edges_fused"] == 0
    schedule = load_schedule(tmp_path / "made.json")
    assert schedule.made_by["method"] == method
    edp = evaluate(schedule).edp_uj_cycles
    assert edp <= made["compared_with"]["greedy"]["edp_uj_cycles"]
