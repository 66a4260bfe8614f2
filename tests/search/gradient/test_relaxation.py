"""The relaxed choice: its gradient is that of the expectation, its value a legal tuple of integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fadiff.search.gradient import DescentSettings, init, pack_problem
from fadiff.search.gradient.problem import BARRED, Table
from fadiff.search.gradient.relaxation import choose, expect, gumbel_softmax, place, proximity_logits, relax
from fadiff.search.space import settle
from search.gradient.toys import ROOMY, residual

ROWS, WIDTH, PARTS, RESTARTS = 3, 6, 2, 4


def drawn(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def table():
    """The last candidate of each row is padding, and stands nearest to everything."""
    bar = jnp.zeros((ROWS, WIDTH, 1)).at[:, -1].set(BARRED)
    return Table(drawn(ROWS, WIDTH, PARTS).at[:, -1].set(0), bar)


def test_the_gradient_written_out_is_that_of_the_expectation():
    points, bar = table()
    noise, weights = drawn(ROWS, WIDTH, RESTARTS, seed=1), drawn(ROWS, PARTS, RESTARTS, seed=2)

    def plain(point):
        share, _ = gumbel_softmax(proximity_logits(point, points, 2.0) + bar, noise, 0.7)
        return jnp.sum(weights * jnp.einsum("wcm,wcr->wmr", points, share))

    def written_out(point):
        return jnp.sum(weights * expect(point, points, bar, noise, 2.0, 0.7)[0])

    point = drawn(ROWS, PARTS, RESTARTS, seed=3)
    assert float(written_out(point)) == pytest.approx(float(plain(point)), rel=1e-5)
    np.testing.assert_allclose(jax.grad(written_out)(point), jax.grad(plain)(point), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("distance", ["log", "linear"])
def test_without_noise_the_nearest_candidate_is_chosen_and_never_padding(distance):
    given, point = table(), 0.1 * drawn(ROWS, PARTS, RESTARTS, seed=4)
    scale = np.exp if distance == "linear" else np.asarray
    value = choose(given, point, 0.0, 2.0, DescentSettings(distance=distance))
    for row in range(ROWS):
        for restart in range(RESTARTS):
            candidates = np.asarray(given.logs[row, :-1])
            apart = ((scale(candidates) - scale(np.asarray(point[row, :, restart]))) ** 2).sum(axis=-1)
            np.testing.assert_allclose(value[row, :, restart], candidates[apart.argmin()], atol=1e-6)


def test_the_gradient_of_placing_is_its_transpose():
    where, unplace = jnp.array([2, 3, 0, 3, 1]), jnp.array([2, 4, 0])
    parts, pulled = drawn(3, RESTARTS), drawn(5, RESTARTS, seed=1)
    placed, pull = jax.vjp(lambda parts: place(parts, where, unplace), parts)
    assert placed[:, 0].tolist() == [parts[2, 0], 0, parts[0, 0], 0, parts[1, 0]]
    assert float(jnp.vdot(placed, pulled)) == pytest.approx(float(jnp.vdot(parts, pull(pulled)[0])), rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"choice": "integers"}, {"choice": "integers", "distance": "linear"}])
def test_relaxed_factors_are_legal_integers_and_their_logarithms(settings):
    settings = DescentSettings(restarts=8, max_candidates=32, **settings)
    problem = pack_problem(residual(), ROOMY, settings)
    params, count = init(problem, settings, 0).params, 8 * sum(table.bar.size for table in problem.arrays.tables)
    relaxed, integers = relax(problem.arrays, settings, params, drawn(count), 1.0)
    factors, size = np.asarray(integers.factors), np.asarray(problem.arrays.layers.size)[:, None]
    assert np.array_equal(factors, np.rint(factors))
    assert np.array_equal(factors, settle(factors, np.asarray(integers.tile)))
    assert np.array_equal(integers.tile, np.ceil(size / integers.shared))
    assert (np.asarray(integers.shared) > 1).any()
    everything = np.concatenate([factors, np.asarray(integers.shared)[None]])
    for (slot, dim), log in relaxed.logs.items():
        np.testing.assert_allclose(log, np.log(everything[slot, dim]), atol=1e-5)
    excess = np.asarray(relaxed.excess)
    assert excess.max() > 0.1 if settings.choice == "integers" else np.abs(excess).max() < 1e-5
