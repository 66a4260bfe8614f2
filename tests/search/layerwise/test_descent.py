"""DOSA's loss and its descent on a Gemmini, against a calculation by hand."""

import jax
import numpy as np
import pytest

from fadiff.search.layerwise.descent import Fixed, acting, descend, init, loss_and_gradient
from fadiff.search.layerwise.points import choose_orders, normalizers, round_point
from fadiff.workload import DIMS
from search.layerwise.dosa import MIXED, SMALL, STARTS, cost_and_penalty, ones, place, space_of, stationary
from search.networks import GEMMINI, mac, network, sized

ROOMS = {"tight": sized(GEMMINI, accumulator=16, scratchpad=100), "roomy": sized(GEMMINI, accumulator=400)}


def narrow(tree):
    """In 32 bits, as the search runs it."""
    return jax.tree.map(lambda x: np.asarray(x).astype(np.float32) if np.asarray(x).dtype == np.float64 else x, tree)


def random_point(space, seed, count) -> np.ndarray:
    """Real factors, some below 1, some whose product exceeds the size."""
    random = np.random.default_rng(seed)
    size = np.asarray(space.exact.layers.size)[[d for _, d in space.exact.free]][:, None]
    shape = (len(size), count, size.shape[-1])
    drawn = np.where(
        random.random(shape) < 0.4, random.uniform(0.7, 0.99, shape), size ** random.uniform(0.05, 0.6, shape)
    )
    return np.where(space.exact.runs, drawn, 1.0)


LOSS = jax.jit(loss_and_gradient)


def loss_of(space, point, orders):
    found = LOSS(narrow(space.internal), np.float32(point), orders)
    return [np.asarray(part, dtype=np.float64) for part in found]


@pytest.mark.parametrize("room", ROOMS)
def test_the_loss_and_its_gradient_are_those_of_a_calculation_by_hand(room):
    """The gradient by finite differences; the weight of the penalties, the EDP itself, is held fixed."""
    space = space_of(MIXED, ROOMS[room])
    point = random_point(space, 3, STARTS)
    orders = np.random.default_rng(4).integers(0, 3, point.shape[1:])
    loss, gradient = loss_of(space, point, orders)
    for start in range(STARTS):
        cost, penalty = cost_and_penalty(space, point[:, start], orders[start])
        assert penalty > 0
        assert loss[start] == pytest.approx(cost * (1 + penalty), rel=1e-4)
        expected = np.zeros_like(point[:, 0])
        for i, k in np.argwhere(np.asarray(space.exact.runs)[:, 0]) if start < 2 else ():
            sides = []
            for sign in (1, -1):
                moved = point[:, start].copy()
                moved[i, k] += sign * 1e-5
                moved_cost, moved_penalty = cost_and_penalty(space, moved, orders[start])
                sides.append(moved_cost + cost * moved_penalty)
            expected[i, k] = (sides[0] - sides[1]) / 2e-5
        if start < 2:
            runs = np.asarray(space.exact.runs)[:, 0]
            tolerance = {"rel": 1e-3, "abs": 1e-4 * np.abs(expected).max()}
            assert gradient[:, start][runs] == pytest.approx(expected[runs], **tolerance)


def test_a_step_descends_on_factors_over_normalizers():
    space = space_of(MIXED, SMALL)
    point, units = np.float32(random_point(space, 5, STARTS)), np.float32(normalizers(space))
    scale = np.linspace(1, 2, STARTS, dtype=np.float32)
    _, gradient = loss_of(space, point, stationary(point))
    fixed = Fixed(units, stationary(point), scale, 0.5)
    after = descend(narrow(space.internal), fixed, init(point / units), 1)
    runs = np.broadcast_to(space.exact.runs, point.shape)
    # After one step Adam's mean of gradients is a tenth of the first one, and it has gone one rate downhill.
    expected = np.where(runs, gradient * units / scale[:, None], 0)
    assert 10 * np.asarray(after.adam.mu) == pytest.approx(expected, rel=1e-4, abs=1e-4 * float(np.abs(expected).max()))
    moved = np.asarray(after.variables) - point / units
    assert moved == pytest.approx(-0.5 * np.sign(np.asarray(after.adam.mu)), abs=1e-4)


def test_factors_below_one_act_as_one():
    values = np.float32([0.3, 1 - 1e-6, 1, 1 + 1e-6, 1.2, 3])
    assert acting(values).tolist() == pytest.approx([1, 1, 1, 1, 1.2, 3])
    assert jax.grad(lambda x: acting(x).sum())(values).tolist() == [0, 1, 1, 1, 1, 1]


def test_at_published_rates_spatial_factors_stay_where_the_start_put_them():
    """A quarter of the array in each direction, which is far from best, is what the method leaves it at."""
    machine = sized(GEMMINI, cols=16, rows=16, accumulator=512, scratchpad=8192)
    space = space_of(network(mac("a", "K64 C64 P28 Q28 R3 S3")), machine)
    point = ones(space, STARTS)
    lanes, tile = [place(space, "cols", "K"), place(space, "rows", "C")], place(space, "registers", "P")
    point[lanes, :, 0], point[tile, :, 0] = 4, 4
    units = normalizers(space)
    orders, cost = choose_orders(space, space.internal, point, stationary(point))

    def descended(rate):
        fixed = Fixed(np.float32(units), orders, np.float32(cost), rate)
        state = descend(narrow(space.internal), fixed, init(np.float32(point / units)), 500)
        return np.asarray(state.variables * np.float32(units), dtype=np.float64)

    slow, fast = descended(7.5e-5), descended(7.5e-3)
    moved = np.abs(slow - point)[:, 0, 0]
    assert 0.1 < moved[lanes].max() < 1
    assert moved[[place(space, "accumulator", dim) for dim in "RS"]].max() < 0.2
    assert moved[[place(space, "registers", dim) for dim in "PQ"]].max() > 0.5
    assert round_point(space, slow)[lanes, 0, 0].tolist() == [4, 4]
    assert round_point(space, fast)[lanes, 0, 0].tolist() == [16, 16]


def test_a_machine_like_gemmini_has_the_published_space():
    """No loops of the scratchpad; of the accumulator over reductions and channels; of the registers over outputs."""
    space = space_of(MIXED, SMALL)
    free = {}
    for node, d in space.exact.free:
        free.setdefault(SMALL.nodes[node].name, []).append(DIMS[d])
    assert free == {"rows": ["C"], "cols": ["G", "K"], "registers": ["N", "P", "Q"], "accumulator": [*"GKCRS"]}
    assert list(free) == ["rows", "cols", "registers", "accumulator"], "rounded from the inside out, lanes first"
