"""The descent as a pure pair `init`, `step`, and `read_out`, which turns its state into proposals.

All restarts run as one batch; steps run in one compiled loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS, SLOTS, T3
from fadiff.search.gradient.loss import Outcome, loss, outcome
from fadiff.search.gradient.options import DescentOptions, anneal
from fadiff.search.gradient.problem import Problem, ProblemArrays
from fadiff.search.gradient.relaxation import Params, Relaxed, noise_size, relax

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


class State(NamedTuple):
    """Where the descent stands."""

    params: Params
    adam: optax.ScaleByAdamState
    key: Array
    """Seeds the noise of every step."""
    step: Array
    """Steps taken."""


class Proposals(NamedTuple):
    """What the descent found, one proposal per restart; layers and edges as the workload lists them."""

    factors: NDArray[np.int64]
    """``[restarts, 5, 8, layers]`` spatial, t0, t1, t2, t3 (the shared part included); 1 for add layers."""
    trips: NDArray[np.int64]
    """``[restarts, 5, layers]`` shared trip counts G, N, P, Q, X as each layer has them on its own."""
    order3: NDArray[np.int64]
    """``[restarts, layers]`` number into ``ORDERS3``."""
    sigma: FloatArray
    """``[restarts, edges]``"""
    log_edp: FloatArray
    """``[restarts]`` relaxed log EDP (uJ * cycles)."""
    penalty: FloatArray
    """``[restarts]`` sum of all penalties, 0 where the relaxed schedule keeps every rule."""
    l2_share: FloatArray
    """``[restarts, layers]`` L2 need over capacity, with soft groups."""
    l1_share: FloatArray
    """``[restarts, layers]`` L1 need over capacity."""


def init(problem: Problem, options: DescentOptions, seed: int, starts: NDArray[np.int64] | None = None) -> State:
    """A batch of restarts.

    `starts` ``[n, 5, 8, layers]`` are known mappings. Half of the batch stands on them, first exactly, then perturbed
    in log space; the other half, or all where there are none, on random candidates. Every restart starts with
    groups of its own, random intervals of the topological order: sigma leans to 1 inside them and to 0 between
    them, and the layers of a group start with the same shared trips.
    """
    rng = np.random.default_rng(seed)
    arrays, restarts = problem.arrays, options.restarts
    layers = arrays.layers.size.shape[-1]
    place = np.asarray(arrays.place)
    logs = np.concatenate([*_random_rows(rng, arrays, restarts), np.zeros((1, restarts))])[place]
    logs = logs.reshape(SLOTS, 8, layers, restarts)
    if starts is not None and len(starts):
        for restart in range(-(-restarts // 2)):
            known = np.log(starts[restart % len(starts)])
            spread = 0.0 if restart < len(starts) else _PERTURBATION
            logs[:SHARED, :, problem.position, restart] = known + spread * rng.normal(size=known.shape)
            logs[SHARED, :, :, restart] = 0
    groups = _random_groups(rng, layers, restarts)
    if options.fuse:
        _share(rng, logs, groups, np.asarray(arrays.layers.size))
    together = groups[np.asarray(arrays.ends.source)] == groups[np.asarray(arrays.ends.target)]
    flat = np.concatenate([logs.reshape(-1, restarts), np.zeros((1, restarts))])[np.asarray(arrays.unplace)]
    params = Params(
        log_factors=jnp.asarray(np.maximum(flat, 0), jnp.float32),
        sigma_logits=jnp.asarray(np.where(together, _LEANING, -_LEANING), jnp.float32),
    )
    adam = cast("optax.ScaleByAdamState", _ADAM.init(params))
    return State(params, adam, jax.random.key(seed), jnp.int32(0))


def step(problem: Problem, options: DescentOptions, state: State, count: int) -> State:
    """Take `count` steps of Adam on the loss of every restart."""
    return cast("_Carry", _descend(problem.arrays, options, state, count))[0]


def read_out(problem: Problem, options: DescentOptions, state: State) -> Proposals:
    """The integers, orders and sigmas that the state stands for, without noise."""
    # One step that stands still, at the end of the schedule: it runs in the program that is compiled already.
    still = replace(
        options, learning_rate=0.0, sigma_rate=0.0, noise_start=0.0, tau_start=options.tau_end,
        lambda_start=options.lambda_end,
    )  # fmt: skip
    _, relaxed, result = cast("_Carry", _descend(problem.arrays, still, state, 1))
    layer = problem.position
    is_mac = np.asarray(problem.arrays.layers.is_mac)[layer]
    factors = _integers(problem, options, np.asarray(relaxed.factors))[..., layer].transpose(2, 0, 1, 3)
    trips = np.ones((options.restarts, 5, len(layer)), dtype=np.int64)
    trips[:, :4] = factors[:, SHARED, SHARED_DIMS]
    mapped = np.concatenate([factors[:, :T3], factors[:, T3:SHARED] * factors[:, SHARED:]], axis=1)
    hardware = problem.arrays.hardware
    # P_valid speaks of the continuous factors; what is proposed are integers.
    broken = result.penalties._replace(valid=jnp.zeros(options.restarts))
    return Proposals(
        factors=np.where(is_mac, mapped, 1),
        trips=trips,
        order3=np.asarray(result.order3, dtype=np.int64)[:, layer],
        sigma=np.asarray(relaxed.sigma, dtype=np.float64)[:, : problem.edges],
        log_edp=np.asarray(result.log_edp, dtype=np.float64),
        penalty=np.sum([np.asarray(value, dtype=np.float64) for value in broken], axis=0),
        l2_share=(np.asarray(result.l2_bytes, dtype=np.float64) / float(hardware.l2_bytes))[:, layer],
        l1_share=(np.asarray(result.l1_bytes, dtype=np.float64) / float(hardware.l1_bytes))[:, layer],
    )


_Carry = tuple[State, Relaxed, Outcome]
_ADAM = optax.scale_by_adam()
_LEANING = 2.0
"""Logit of sigma at the start."""
_PERTURBATION = 0.7
"""Standard deviation of a perturbed log factor: about a factor of two."""


@jax.jit
def _descend(problem: ProblemArrays, options: DescentOptions, state: State, count: Array | int) -> _Carry:
    """`count` steps, and what the model said in the last of them."""
    size = noise_size(problem, options.restarts)
    # Drawing fresh noise for all candidates would take half of the time of a step. A pool twice as long is drawn once;
    # each step reads it from another place.
    pool = jax.random.gumbel(jax.random.key(0), (2 * size,))

    def one_step(state: State) -> _Carry:
        now = anneal(options, state.step)
        start = jax.random.bits(jax.random.fold_in(state.key, state.step)) % jnp.uint32(max(size, 1))
        noise = now.noise * jax.lax.dynamic_slice(pool, (start,), (size,))

        def total_loss(params: Params) -> tuple[Array, tuple[Relaxed, Outcome]]:
            relaxed = relax(problem, options, params, noise, now.tau)
            result = outcome(problem, options, params, relaxed, now)
            return jnp.sum(loss(result, options, now)), (relaxed, result)

        gradient, seen = cast(
            "tuple[Params, tuple[Relaxed, Outcome]]", jax.grad(total_loss, has_aux=True)(state.params)
        )
        update, adam = _ADAM.update(gradient, state.adam)
        direction = cast("Params", update)
        params = Params(
            log_factors=state.params.log_factors - options.learning_rate * direction.log_factors,
            sigma_logits=state.params.sigma_logits - options.sigma_rate * direction.sigma_logits,
        )
        return State(params, cast("optax.ScaleByAdamState", adam), state.key, state.step + 1), *seen

    def advance(_: Array, carry: _Carry) -> _Carry:
        return one_step(carry[0])

    def zeros(leaf: jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros(leaf.shape, leaf.dtype)

    shapes = cast("_Carry", jax.eval_shape(one_step, state))
    unseen = cast("_Carry", jax.tree.map(zeros, shapes))
    return cast("_Carry", jax.lax.fori_loop(0, count, advance, (state, *unseen[1:])))


def _integers(problem: Problem, options: DescentOptions, factors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Integers ``[6, 8, restarts, layers]`` whose products are the sizes.

    Where slots chose on their own, or the forward pass was an expectation, these are the nearest whole
    factorizations (in log space).
    """
    if options.choice != "factorizations" or not options.straight_through:
        factors = factors.copy()
        for choice in problem.choices:
            slots = list(choice.slots)
            point = np.log(factors[slots, choice.dim, :, choice.layer])
            distance = ((np.log(choice.factors)[:, :, None] - point) ** 2).sum(axis=1)
            factors[slots, choice.dim, :, choice.layer] = choice.factors[distance.argmin(axis=0)].T
    return np.rint(factors).astype(np.int64)


def _random_rows(rng: np.random.Generator, problem: ProblemArrays, restarts: int) -> list[FloatArray]:
    """Per table ``[rows * parts, restarts]``: the log factors of a random candidate of every row."""
    found: list[FloatArray] = []
    for table in problem.tables:
        factors = np.asarray(table.factors, dtype=np.float64)
        count = (np.asarray(table.bar) == 0).sum(axis=1)
        chosen = (rng.random((len(factors), restarts)) * count).astype(np.int64)
        picked = np.take_along_axis(np.log(factors), chosen[:, :, None], axis=1)
        found.append(picked.transpose(0, 2, 1).reshape(-1, restarts))
    return found


def _random_groups(rng: np.random.Generator, layers: int, restarts: int) -> NDArray[np.int64]:
    """``[layers, restarts]`` number of each layer's group; between single layers and a few large groups."""
    cut = rng.random((layers, restarts)) < rng.uniform(0.1, 1, size=restarts)
    return cut.cumsum(axis=0)


def _share(rng: np.random.Generator, logs: FloatArray, groups: NDArray[np.int64], size: FloatArray) -> None:
    """Move a part of L3 into the shared slot, the same in all layers of a group: none in a quarter of the groups, else
    up to 32 trips, most often of rows only."""
    shape = (groups.max() + 1, logs.shape[-1])
    target = rng.uniform(0, np.log(32), size=(4, *shape))
    target[0] *= rng.random(shape) < 0.5
    target[3] *= rng.random(shape) < 0.25
    target *= rng.random(shape) < 0.75
    for trips, d in zip(target, SHARED_DIMS, strict=True):
        mine = np.minimum(np.take_along_axis(trips, groups, axis=0), np.log(size[d])[:, None])
        logs[SHARED, d] = mine
        logs[T3, d] = np.maximum(logs[T3, d] - mine, 0)
