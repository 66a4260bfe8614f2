import jax
import jax.numpy as jnp
import numpy as np

from fadiff.hardware import load_hardware
from fadiff.search.gradient import DescentOptions, init, pack_problem
from fadiff.search.gradient.options import anneal
from fadiff.search.gradient.relaxation import expect, gumbel_softmax, place, proximity_logits, relax
from fadiff.workload import load_model

RNG = np.random.default_rng(0)
LOGITS = jnp.asarray(RNG.normal(size=(3, 7, 5)), jnp.float32)


def test_as_tau_goes_to_zero_the_choice_is_the_argmax():
    noise = jnp.asarray(RNG.gumbel(size=LOGITS.shape), jnp.float32)
    probabilities, chosen = gumbel_softmax(LOGITS, noise, 1e-3)
    assert np.array_equal(chosen, np.argmax(LOGITS + noise, axis=1))
    assert np.allclose(probabilities, jax.nn.one_hot(chosen, 7, axis=1), atol=1e-4)


def test_choices_are_drawn_as_often_as_the_softmax_says():
    logits = jnp.asarray([0.0, 1.0, 2.0, -1.0])[None, :, None]
    noise = jax.random.gumbel(jax.random.key(0), (1, 4, 20_000))
    _, chosen = gumbel_softmax(jnp.broadcast_to(logits, noise.shape), noise, 1.0)
    shares = np.bincount(np.asarray(chosen)[0], minlength=4) / 20_000
    assert np.allclose(shares, jax.nn.softmax(logits[0, :, 0]), atol=0.015)


def test_ties_are_broken_and_barred_candidates_never_chosen():
    bar = jnp.asarray([0.0, 0.0, -1e9])[None, :, None]
    probabilities, chosen = gumbel_softmax(jnp.zeros((1, 3, 2)) + bar, 0.0, 1.0)
    assert np.array_equal(chosen, [[1, 1]])
    assert np.allclose(probabilities[0, :, 0], [0.5, 0.5, 0.0])


def test_the_written_out_gradient_is_that_of_the_formula():
    points = jnp.asarray(RNG.normal(size=(3, 7, 4)), jnp.float32)
    point = jnp.asarray(RNG.normal(size=(3, 4, 5)), jnp.float32)
    noise = jnp.asarray(RNG.gumbel(size=(3, 7, 5)), jnp.float32)
    bar = jnp.zeros((3, 7, 1)).at[:, 6].set(-1e9)
    weights = jnp.asarray(RNG.normal(size=(3, 4, 5)), jnp.float32)

    def plain(point: jax.Array) -> jax.Array:
        soft = jax.nn.softmax((proximity_logits(point, points, 2.0) + bar + noise) / 0.7, axis=1)
        return jnp.sum(weights * jnp.einsum("wcm,wcr->wmr", points, soft))

    def ours(point: jax.Array) -> jax.Array:
        return jnp.sum(weights * expect(point, points, bar, noise, 2.0, 0.7)[0])

    assert np.allclose(plain(point), ours(point), rtol=1e-4)
    assert np.allclose(jax.grad(plain)(point), jax.grad(ours)(point), atol=1e-4)


def test_placing_parts_has_the_gradient_of_a_gather():
    where, unplace = jnp.asarray([2, 3, 0, 3, 3, 1]), jnp.asarray([2, 5, 0])
    weights = jnp.asarray(RNG.normal(size=(6, 2)), jnp.float32)
    parts = jnp.asarray(RNG.normal(size=(3, 2)), jnp.float32)

    def gathered(parts: jax.Array) -> jax.Array:
        return jnp.sum(weights * jnp.concatenate([parts, jnp.ones((1, 2))])[where])

    placed = jax.grad(lambda parts: jnp.sum(weights * place(parts, where, unplace)))(parts)
    assert np.allclose(placed, jax.grad(gathered)(parts))


def test_the_forward_pass_is_an_exact_factorization_of_every_dim():
    workload, options = load_model("resnet18"), DescentOptions(restarts=4)
    problem = pack_problem(workload, load_hardware("gemmini-large"), options)
    state = init(problem, options, seed=0)
    now = anneal(options, jnp.int32(0))
    noise = jax.random.gumbel(
        jax.random.key(1), (4 * sum(np.prod(t.factors.shape[:2]) for t in problem.arrays.tables),)
    )
    factors = np.asarray(jax.jit(relax)(problem.arrays, options, state.params, noise, now.tau).factors)
    assert np.array_equal(factors, np.rint(factors))
    is_mac = np.asarray(problem.arrays.layers.is_mac)
    sizes = np.asarray(problem.arrays.layers.size)[:, None, is_mac]
    assert np.array_equal(factors.prod(axis=0)[..., is_mac], np.broadcast_to(sizes, (8, 4, is_mac.sum())))


def test_the_schedule_of_the_descent_runs_from_start_to_end():
    options = DescentOptions(steps=11)
    first, last = anneal(options, jnp.int32(0)), anneal(options, jnp.int32(10))
    assert np.allclose([first.tau, first.noise, first.weight], [2.0, 0.3, 0.01])
    assert np.allclose([last.tau, last.noise, last.weight], [0.04, 0.0, 10.0])
