"""The descent as a pure pair `init`, `step`, and `read_out`, which turns its state into proposals.

All restarts run as one batch; steps run in one compiled loop. Of what they propose, sigma decides which layers run
together, and the layers' shared trips how they are tiled (:func:`decode_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fadiff.schedule.arrays import pack_mappings
from fadiff.schedule.nest import SHARED
from fadiff.search.exact.plans import Members, Plan, bonds, split
from fadiff.search.gradient.candidates import SHARED_DIMS
from fadiff.search.gradient.loss import Seen, apart, choose_orders, look, loss, price_orders, set_scene
from fadiff.search.gradient.penalties import PENALTIES
from fadiff.search.gradient.problem import Problem, ProblemArrays
from fadiff.search.gradient.relaxation import Integers, Params, Relaxed, pick, relax
from fadiff.search.gradient.settings import DescentSettings, anneal
from fadiff.search.programs import compile_in_time

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import MachineArrays
    from fadiff.schedule import Schedule
    from fadiff.search.exact.conditions import Task
    from fadiff.search.gradient.loss import Options, Orders
    from fadiff.search.gradient.penalties import Scene
    from fadiff.search.gradient.problem import Table
    from fadiff.search.gradient.settings import Anneal

    FactorLogs = Float[np.ndarray, "slots 8 layers restarts"]
    Groups = Int[np.ndarray, "layers restarts"]
    Random = np.random.Generator

PROPOSED_ORDERS = 3
"""Loop orders that each layer considers in a step besides its own: another one of one memory each."""
LEANING = 2.0
"""Logit of sigma at the start."""
FUSED = 0.5
"""Sigma from which on an edge is fused."""
PERTURBATION = 0.7
"""Standard deviation of a perturbed log factor: about a factor of two."""


class State(NamedTuple):
    """Where the descent stands."""

    params: Params
    optimizer: optax.OptState
    orders: Orders
    """Number of the loop order of each memory in each layer."""
    key: Array
    """Seeds the noise of every step."""
    step: Int[Array, ""]
    """Steps taken."""
    integers: Integers
    sigma: Float[Array, "restarts edges"]
    seen: Seen
    """What the last step looked at: factors, sigmas, and what the model says of them."""


class Proposals(NamedTuple):
    """What the descent found, one proposal per restart; layers and edges as the workload lists them."""

    factors: Int[np.ndarray, "restarts nodes 8 layers"]
    """The first memory's are private; 1 for add layers."""
    orders: Int[np.ndarray, "restarts memories layers"]
    """Numbers into the machine's useful orders."""
    trips: Int[np.ndarray, "restarts 4 layers"]
    """Shared trip counts G, N, P, Q as each layer has them on its own."""
    sigma: Float[np.ndarray, "restarts edges"]
    log_edp: Float[np.ndarray, " restarts"]
    """Relaxed log EDP (uJ * cycles)."""
    penalty: Float[np.ndarray, " restarts"]
    """Sum of all penalties, 0 where the relaxed schedule keeps every rule."""


def init(problem: Problem, settings: DescentSettings, seed: int, starts: Sequence[Schedule] = ()) -> State:
    """A batch of restarts.

    Half of the batch stands on the mappings of `starts`, first exactly, then perturbed in log space; the other half, or
    all where there are none, on random candidates and orders. Every restart starts with groups of its own, random
    intervals of the topological order: sigma leans to 1 inside them and to 0 between them, and the layers of a group
    start with the same shared trips.
    """
    random, (arrays, position, _) = np.random.default_rng(seed), problem
    restarts, layers, nodes = settings.restarts, arrays.layers.size.shape[-1], len(arrays.structure.dims)
    parts = np.concatenate([_random_rows(random, table, restarts) for table in arrays.tables])
    logs = pick(arrays.place, parts).reshape(-1, 8, layers, restarts)
    choices = np.array([len(orders) for orders in arrays.orders])
    orders = (random.random((len(choices), layers, restarts)) * choices[:, None, None]).astype(np.int32)
    for restart in range(-(-restarts // 2) if starts else 0):
        schedule, spread = starts[restart % len(starts)], 0.0 if restart < len(starts) else PERTURBATION
        mappings = [schedule.mappings.get(layer.name) for layer in schedule.workload.layers]
        packed = pack_mappings(schedule.machine, mappings, cast("Array", np.ones((8, len(mappings)))))
        known = np.log(np.asarray(packed.factors))
        logs[:SHARED, :, position, restart] = known + spread * random.normal(size=known.shape)
        logs[SHARED, :, :, restart] = 0
        for at, mapping in zip(position, mappings, strict=True):
            for i, order in enumerate(mapping.orders if mapping else ()):
                orders[i, at, restart] = arrays.orders[i].index(order) if order in arrays.orders[i] else 0
    groups = (random.random((layers, restarts)) < random.uniform(0.1, 1, size=restarts)).cumsum(axis=0)
    if arrays.shares:
        _share(random, arrays, logs, groups)
    together = np.asarray(arrays.ends.source).T @ groups == np.asarray(arrays.ends.target).T @ groups
    params = Params(
        log_factors=jnp.asarray(np.maximum(pick(arrays.unplace, logs.reshape(-1, restarts)), 0), jnp.float32),
        sigma_logits=jnp.asarray(np.where(together, LEANING, -LEANING), jnp.float32),
    )
    sides, numbers = jnp.zeros((8, restarts, layers)), jnp.zeros(restarts)
    return State(
        params=params,
        optimizer=_adam(settings).init(params),
        orders=jnp.asarray(orders.swapaxes(1, 2)),
        key=jax.random.key(seed),
        step=jnp.int32(0),
        integers=Integers(jnp.zeros((nodes, 8, restarts, layers)), sides, sides),
        sigma=jnp.zeros(together.T.shape),
        seen=Seen(numbers, numbers, jnp.zeros((len(PENALTIES), restarts))),
    )


def compile_steps(problem: Problem, settings: DescentSettings, state: State, deadline: float) -> None:
    """Compile what `step` and `read_out` run; raises :class:`~fadiff.search.driver.OutOfTimeError` where that would
    not end before the deadline."""
    nodes = len(problem.arrays.structure.dims)
    compile_in_time("the descent", deadline, nodes, _descend, problem.arrays, settings, state, state.step, 1)


def step(problem: Problem, settings: DescentSettings, state: State, count: int) -> State:
    """Take `count` steps of Adam on the loss of every restart; they are done when it returns."""
    after = cast("State", _descend(problem.arrays, settings, state, state.step, count))
    jax.block_until_ready(after)
    return after


def read_out(problem: Problem, settings: DescentSettings, state: State) -> Proposals:
    """The integers, orders and sigmas that the state stands for, without noise."""
    # One step that stands still, at the end of the schedule: it runs in the program that is compiled already.
    still, end = replace(settings, learning_rate=0.0, sigma_rate=0.0), jnp.int32(settings.steps)
    state = cast("State", _descend(problem.arrays, still, state, end, 1))
    integers, sigma, seen = jax.device_get((state.integers, state.sigma, state.seen))
    layer = problem.position
    is_mac = np.asarray(problem.arrays.layers.is_mac)[layer] > 0
    # P_valid speaks of the continuous factors; what is proposed are integers.
    broken = [i for i, penalty in enumerate(PENALTIES) if penalty.name != "valid"]
    return Proposals(
        factors=np.where(is_mac, np.rint(integers.factors).astype(np.int64).transpose(2, 0, 1, 3)[..., layer], 1),
        orders=np.asarray(state.orders).swapaxes(0, 1)[..., layer],
        trips=np.rint(integers.shared[list(SHARED_DIMS)]).astype(np.int64).swapaxes(0, 1)[..., layer],
        sigma=np.asarray(sigma, dtype=np.float64)[:, : problem.edges],
        log_edp=np.log(np.asarray(seen.energy_pj) * 1e-6) + np.log(np.asarray(seen.cycles)),
        penalty=np.asarray(seen.penalties)[broken].sum(axis=0),
    )


def _adam(settings: DescentSettings) -> optax.GradientTransformationExtraArgs:
    """Adam with one learning rate for factors and one for sigma."""
    rates = {"factors": settings.learning_rate, "sigma": settings.sigma_rate}
    return optax.partition({name: optax.adam(rate) for name, rate in rates.items()}, Params("factors", "sigma"))  # pyright: ignore[reportArgumentType]


class Noise(NamedTuple):
    """Random numbers for all steps. Drawing fresh ones for all candidates would take half of the time of a step: a pool
    twice as long is drawn once, and each step reads it from another place."""

    uniform: Float[Array, " pool"]
    gumbel: Float[Array, " pool"]

    @property
    def longest(self) -> int:
        """Numbers that a step may read from any place on."""
        return self.uniform.shape[0] // 2


def draw_noise(problem: ProblemArrays, settings: DescentSettings, state: State) -> Noise:
    """The pool of a descent."""
    pool = jax.random.uniform(jax.random.key(0), (2 * max(_noise_sizes(problem, settings, state)),), minval=1e-7)
    return Noise(pool, -jnp.log(-jnp.log(pool)))


def _noise_sizes(problem: ProblemArrays, settings: DescentSettings, state: State) -> tuple[int, int]:
    """Numbers that a step takes for candidates, and for orders."""
    size = settings.restarts * sum(table.bar.size for table in problem.tables)
    return size, 2 * (PROPOSED_ORDERS + 1) * state.orders[0].size


class Pull(NamedTuple):
    """What a step finds before it moves."""

    params: Params
    """Slopes of the loss."""
    machine: MachineArrays | None
    """Slopes in the numbers of the machine, where they are asked for."""
    derived: Any
    """What a machine that follows from the mappings says of itself."""
    orders: Orders
    """Those that layers took."""
    integers: Integers
    sigma: Float[Array, "restarts edges"]
    seen: Seen


class Derived(NamedTuple):
    """A machine that follows from the mappings of its restart."""

    machine: MachineArrays
    loss: Float[Array, " restarts"]
    """What the machine itself adds to the loss."""
    told: Any
    """What is to be known of it."""


def pull(
    problem: ProblemArrays,
    settings: DescentSettings,
    state: State,
    now: Anneal,
    noise: Noise,
    *,
    of_machine: bool = False,
    derive: Callable[[Scene], Derived] | None = None,
) -> Pull:
    """Choose integers and orders, and look where the loss falls from there.

    With `derive`, the machine is what it says of the mappings, and slopes go through it.
    """
    (size, twice), considered = _noise_sizes(problem, settings, state), (PROPOSED_ORDERS + 1) * state.orders[0].size
    here = jax.random.bits(jax.random.fold_in(state.key, state.step)) % jnp.uint32(noise.longest)
    scaled = now.noise * jax.lax.dynamic_slice(noise.gumbel, (here,), (size,))
    drawn = jax.lax.dynamic_slice(noise.uniform, (here,), (considered,))
    draw = jax.lax.dynamic_slice(noise.gumbel, (here + considered,), (twice - considered,))
    orders = _considered(problem, state.orders, drawn)

    def total_loss(relaxed: Relaxed, machine: MachineArrays) -> tuple[Array, tuple[Seen, Any]]:
        priced = replace(problem, machine=machine) if of_machine else problem
        scene = set_scene(priced, settings, relaxed, integers, chosen, known)
        found = None if derive is None else derive(scene)
        if found is not None:
            scene = scene._replace(problem=replace(problem, machine=found.machine))
        seen = look(scene, settings.objective.charges)
        total = jnp.sum(loss(seen, settings, now))
        return (total, (seen, None)) if found is None else (total + jnp.sum(found.loss), (seen, found.told))

    relaxing = partial(relax, problem, settings, noise=scaled, tau=now.tau)
    relaxed, back, integers = cast("tuple[Relaxed, Any, Integers]", jax.vjp(relaxing, state.params, has_aux=True))
    due, pricing = now.tau > 0, partial(price_orders, problem, settings)
    price, counts = apart(due, pricing, integers, relaxed.sigma, orders, now.weight)
    chosen, known = choose_orders(settings, orders, price, counts, draw.reshape(price.shape), now.tau)
    asked = (0, 1) if of_machine else (0,)
    slopes, (seen, told) = apart(due, jax.grad(total_loss, asked, has_aux=True), relaxed, problem.machine)
    return Pull(back(slopes[0])[0], slopes[1] if of_machine else None, told, chosen, integers, relaxed.sigma, seen)


def moved(settings: DescentSettings, state: State, found: Pull) -> State:
    """The state after a step of Adam."""
    update, optimizer = _adam(settings).update(found.params, state.optimizer)
    params = cast("Params", optax.apply_updates(state.params, update))
    return State(params, optimizer, found.orders, state.key, state.step + 1, found.integers, found.sigma, found.seen)


@jax.jit
def _descend(problem: ProblemArrays, settings: DescentSettings, state: State, start: Array, count: int) -> State:
    """`count` steps, with the numbers that are due from step `start` on."""
    noise = draw_noise(problem, settings, state)

    def one_step(i: Array, state: State) -> State:
        return moved(settings, state, pull(problem, settings, state, anneal(settings, start + i), noise))

    return cast("State", jax.lax.fori_loop(0, count, one_step, state))


def _considered(problem: ProblemArrays, orders: Orders, drawn: Float[Array, " numbers"]) -> Options:
    """The present orders, and some that differ from them in one memory; `drawn` are random numbers."""
    several = [i for i, choices in enumerate(problem.orders) if len(choices) > 1]
    counts = np.array([len(problem.orders[i]) for i in several])
    scaled = drawn.reshape(-1, *orders.shape[1:])[1:] * len(several)
    which = jnp.floor(scaled).astype(jnp.int32)
    number = jnp.floor((scaled - which) * jnp.asarray(counts)[which]).astype(jnp.int32)
    here = jnp.arange(orders.shape[0])[:, None, None] == jnp.asarray(several, jnp.int32)[which][:, None]
    return jnp.concatenate([orders[None], jnp.where(here, number[:, None], orders)])


def _random_rows(random: Random, table: Table, restarts: int) -> Float[np.ndarray, "parts restarts"]:
    """The log factors of a random candidate of every row."""
    logs, count = np.asarray(table.logs, dtype=np.float64), (np.asarray(table.bar) == 0).sum(axis=1)
    chosen = (random.random((len(logs), restarts)) * count).astype(np.int64)
    return np.take_along_axis(logs, chosen[:, :, None], axis=1).transpose(0, 2, 1).reshape(-1, restarts)


def _share(random: Random, problem: ProblemArrays, logs: FactorLogs, groups: Groups) -> None:
    """Move a part of the first memory's loops into the shared slot, the same in all layers of a group: none in a
    quarter of the groups, else up to 32 trips, most often of rows only."""
    shape = (groups.max() + 1, logs.shape[-1])
    target = random.uniform(0, np.log(32), size=(4, *shape))
    target[0] *= random.random(shape) < 0.5
    target[3] *= random.random(shape) < 0.25
    target *= random.random(shape) < 0.75
    for trips, d in zip(target, SHARED_DIMS, strict=True):
        mine = np.minimum(np.take_along_axis(trips, groups, axis=0), np.log(problem.layers.size[d])[:, None])
        logs[SHARED, d] = mine
        logs[0, d] = np.maximum(logs[0, d] - mine, 0)


def decode_groups(task: Task, proposals: Proposals, restart: int) -> list[Plan]:
    """Plans of the groups that a restart proposes, repaired until they are legal.

    Edges with sigma of at least :data:`FUSED` are fused. A run of layers that cannot be a group, or whose buffers fit
    with no trip counts, is split; trip counts are the legal ones nearest to the mean of what its layers propose.
    """
    names, log_trips = task.workload.topological, np.log(proposals.trips[restart])

    def planned(start: int, stop: int) -> Plan | None:
        members = names[start:stop]
        wanted = log_trips[:, [task.number[name] for name in members]].mean(axis=1)
        return Members(task, members).nearest_plan(wanted.tolist())

    return list(split(bonds(task.workload, proposals.sigma[restart]), FUSED, planned))
