r"""One batch descends over factors, sigma, and the logarithms of the machine's free numbers, each restart with its own.

.. math::
    Loss = \sum_n w_n \left(\log EDP_n + \lambda P_n\right)
           + 30\,\lambda \max\left(0, \ln \frac{area}{budget}\right)^2 + p \ln area

A restart has one machine for all networks n. Capacities have a price by the energies and the area of the memories that
provide them, lanes by area alone. Numbers that only have some values are drawn to the nearest of them, more and more,
with the gradient of the number itself (straight through). Restarts have budgets of their own, most of them the one that
is asked for and the others smaller ones, so that machines of many areas come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.lax import stop_gradient

from fadiff.search import clock, gradient
from fadiff.search.codesign.derived import needed_logs
from fadiff.search.driver import OutOfTimeError, Pace, Status
from fadiff.search.gradient.descent import Derived, State, draw_noise, moved, pull
from fadiff.search.gradient.loss import loss
from fadiff.search.gradient.settings import anneal
from fadiff.search.greedy import greedy
from fadiff.search.programs import compile_in_time

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import MachineArrays, Space
    from fadiff.hardware.space import Values
    from fadiff.schedule import Schedule
    from fadiff.search.codesign.question import Question
    from fadiff.search.gradient.penalties import Scene
    from fadiff.search.gradient.problem import ProblemArrays
    from fadiff.search.gradient.settings import DescentSettings

    Logs = Float[Array, "numbers restarts"]

AREA_WEIGHT = 30.0
LEARNING_RATE = 0.05
"""Of the logarithms of free numbers."""
SNAPPING = (0.25, 0.75)
"""Between these shares of the steps, numbers with few values are drawn to them."""
GREEDY_MACHINES = 4
"""Random machines that half of the restarts begin on, each with its greedy schedule."""
SMALLER_SHARE = 0.25
"""Share of the restarts that have a smaller budget than the one asked for."""
STEPS_AT_ONCE = 25
HAIR = 1e-3
"""By how much of a step a number may be above what can be built: logarithms of 32 bits."""


class Candidate(NamedTuple):
    """A machine that a restart proposes."""

    values: Values
    """Rounded to what can be built, and within the area asked for."""
    relaxed_score: float
    """Of the relaxed schedules, with their penalties."""


class Prices(NamedTuple):
    """What area costs."""

    budget_mm2: Float[Array, " restarts"]
    log_price: Float[Array, ""]
    """Of ln area itself; 0 where only the budget counts."""


class CodesignState(NamedTuple):
    """Where the descent stands."""

    networks: tuple[State, ...]
    logs: Logs
    optimizer: optax.OptState


def drawn_logs(space: Space, random: np.random.Generator, count: int) -> np.ndarray:
    """Random machines ``[numbers, count]`` of the space, as logarithms."""
    low, high = (np.log([number.ends[end] for number in space.numbers])[:, None] for end in (0, 1))
    return random.uniform(low, high, size=(len(space.numbers), count))


def filling(space: Space, drawn: np.ndarray, budgets_mm2: np.ndarray) -> np.ndarray:
    """Machines ``[numbers, restarts]``, as logarithms: all their numbers multiplied by what fills the budget."""
    low, high = (np.log([number.ends[end] for number in space.numbers])[:, None] for end in (0, 1))
    widest = float((high - low).max())
    less, more = np.full(len(budgets_mm2), -widest), np.full(len(budgets_mm2), widest)
    for _ in range(40):
        middle = (less + more) / 2
        fits = np.asarray(space.area_mm2(np.clip(drawn + middle, low, high))) <= budgets_mm2
        less, more = np.where(fits, middle, less), np.where(fits, more, middle)
    return np.clip(drawn + less, low, high)


def budgets(question: Question, restarts: int) -> np.ndarray:
    """The area that each restart may take: that of the question, and for some of them less."""
    least, most = question.area_range_mm2
    found, fewer = np.full(restarts, most), int(SMALLER_SHARE * restarts)
    if fewer:
        found[-fewer:] = np.geomspace(max(least, most / 8), most, fewer, endpoint=False)
    return found


def descend(
    question: Question,
    settings: DescentSettings,
    seed: int,
    deadline: float,
    found: list[Candidate],
    *,
    derived: bool = False,
) -> Iterator[Status]:
    """Take all steps; at the end `found` holds the machines that restarts propose, best first, each only once.

    With `derived`, machines do not descend on their own but follow from the mappings (:mod:`.derived`), of one network.
    """
    space, random = question.space, np.random.default_rng(seed)
    largest = space.at([number.ends[1] for number in space.numbers])
    # A dim alone on an axis fills it on every machine of the space.
    spread = max((number.high / number.low for number in space.numbers if number.unit == "lanes"), default=1.0)
    settings = replace(
        settings, objective=question.objective, spatial_slack=int(settings.spatial_slack * max(spread, 1.0))
    )
    limits = budgets(question, settings.restarts)
    logs = drawn_logs(space, random, settings.restarts)
    if question.fills_area:
        logs = filling(space, logs, limits)
    starts, half = _greedy_starts(question, logs), -(-settings.restarts // 2)
    if starts[0]:
        places = np.arange(half) % len(starts[0])
        logs[:, :half] = logs[:, places]
    problems = [gradient.pack_problem(workload, largest, settings) for workload in question.workloads]
    networks = tuple(
        gradient.init(problem, settings, seed, mine) for problem, mine in zip(problems, starts, strict=True)
    )
    start = jnp.asarray(logs, jnp.float32)
    state = CodesignState(networks, start, optax.adam(LEARNING_RATE).init(start))
    prices = Prices(jnp.asarray(limits, jnp.float32), jnp.float32(question.aim == "edp-area"))
    arrays, shares = tuple(problem.arrays for problem in problems), jnp.asarray(question.shares, jnp.float32)
    given = (space, arrays, settings, shares, prices)
    nodes = len(largest.nodes) * len(problems)
    compile_in_time("the descent", deadline, nodes, _descend, derived, *given, state, jnp.int32(0), 1)
    done, pace = 0, Pace()
    while done < settings.steps:
        count = pace.piece(min(STEPS_AT_ONCE - done % STEPS_AT_ONCE, settings.steps - done))
        with pace.work(deadline, count):
            state = cast("CodesignState", _descend(derived, *given, state, jnp.int32(done), count))
            jax.block_until_ready(state)
        done += count
        if done >= STEPS_AT_ONCE and (settings.steps - done) * pace.seconds > deadline - clock.monotonic():
            raise OutOfTimeError("the descent was left out: there was no time for its steps")
        if done % STEPS_AT_ONCE == 0 or done == settings.steps:
            yield Status("descend", done, settings.steps, float(anneal(settings, done).tau))
    if derived:
        state = state._replace(logs=snapped(space, state.logs, jnp.ones(()), up=True))
    found += _candidates(question, settings, state)


def _greedy_starts(question: Question, logs: np.ndarray) -> list[list[Schedule]]:
    """By network: greedy schedules on the first machines."""
    space, count = question.space, min(GREEDY_MACHINES, logs.shape[1])
    machines = [space.at(_built(space, logs[:, i])) for i in range(count)]
    return [[greedy(workload, machine) for machine in machines] for workload in question.workloads]


def _built(space: Space, logs: np.ndarray) -> Values:
    return space.rounded(np.exp(np.asarray(logs, dtype=np.float64)).tolist())


def _candidates(question: Question, settings: DescentSettings, state: CodesignState) -> list[Candidate]:
    space, logs = question.space, np.asarray(state.logs, dtype=np.float64)
    total, end = np.zeros(logs.shape[1]), anneal(settings, settings.steps)
    for share, network in zip(question.shares, state.networks, strict=True):
        total += share * np.asarray(loss(network.seen, settings, end), dtype=np.float64)
    if question.aim == "edp-area":
        total += np.log(np.asarray(space.area_mm2(logs)))
    best: dict[Values, float] = {}
    for i in np.argsort(total, kind="stable").tolist():
        values = question.fitted(_built(space, logs[:, i]))
        if isfinite(total[i]):
            best.setdefault(values, float(total[i]))
    return [Candidate(values, score) for values, score in best.items()]


def snapped(space: Space, logs: Logs, share: Array, *, up: bool = False) -> Logs:
    """Numbers with few values moved towards the nearest of them (or the next above), by a share of the way; the
    gradient stays."""
    rows: list[Array] = []

    def near(steps: Array) -> Array:
        return jnp.ceil(steps - HAIR) if up else jnp.round(steps)

    for number, row in zip(space.numbers, logs, strict=True):
        nearest = row
        if number.powers_of is not None:
            unit = np.log(number.powers_of)
            low, high = (round(float(np.log(end) / unit)) for end in number.ends)
            nearest = jnp.clip(near(row / unit), low, high) * unit
        elif number.step is not None:
            steps = near((jnp.exp(row) - number.low) / number.step)
            nearest = jnp.log(jnp.clip(number.low + steps * number.step, *number.ends))
        rows.append(row + stop_gradient(share * (nearest - row)))
    return jnp.stack(rows)


def area_loss(space: Space, logs: Logs, prices: Prices, weight: Array) -> Float[Array, " restarts"]:
    """What the area of each restart's machine adds to its loss."""
    log_area = jnp.log(space.area_mm2(logs, jnp))
    over = jnp.maximum(log_area - jnp.log(prices.budget_mm2), 0)
    return AREA_WEIGHT * weight * over**2 + prices.log_price * log_area


@partial(jax.jit, static_argnums=(0, 1))
def _descend(
    derived: bool,
    space: Space,
    problems: tuple[ProblemArrays, ...],
    settings: DescentSettings,
    shares: Float[Array, " networks"],
    prices: Prices,
    state: CodesignState,
    start: Array,
    count: int,
) -> CodesignState:
    """`count` steps, with the numbers that are due from step `start` on."""
    noise = [draw_noise(problem, settings, one) for problem, one in zip(problems, state.networks, strict=True)]
    low, high = (jnp.log(jnp.asarray([n.ends[end] for n in space.numbers], jnp.float32))[:, None] for end in (0, 1))

    def one_step(i: Array, state: CodesignState) -> CodesignState:
        now = anneal(settings, start + i)
        done = (start + i) / jnp.maximum(settings.steps - 1, 1)
        share = jnp.clip((done - SNAPPING[0]) / (SNAPPING[1] - SNAPPING[0]), 0, 1)

        def machine_of(logs: Logs) -> MachineArrays:
            numbers = space.arrays(snapped(space, logs, share)[:, :, None], jnp)
            return cast("MachineArrays", jax.tree.map(partial(jnp.asarray, dtype=jnp.float32), numbers))

        def derive(scene: Scene) -> Derived:
            logs = needed_logs(space, scene)
            built = snapped(space, logs, share, up=True)
            numbers = space.arrays(built[:, :, None], jnp)
            return Derived(numbers, area_loss(space, built, prices, now.weight), logs)

        if derived:
            (problem,), (one,), (mine,) = problems, state.networks, noise
            problem = replace(problem, machine=machine_of(state.logs))
            found = pull(problem, settings, one, now, mine, derive=derive)
            return CodesignState((moved(settings, one, found),), found.derived, state.optimizer)

        machine, back = cast("tuple[MachineArrays, Any]", jax.vjp(machine_of, state.logs))
        pulls = [
            pull(replace(problem, machine=machine), settings, one, now, mine, of_machine=True)
            for problem, one, mine in zip(problems, state.networks, noise, strict=True)
        ]

        def area_terms(logs: Logs) -> Array:
            return jnp.sum(area_loss(space, snapped(space, logs, share), prices, now.weight))

        slopes = cast("Array", jax.grad(area_terms)(state.logs))
        for weight, found in zip(shares, pulls, strict=True):
            slopes = slopes + weight * back(found.machine)[0]
        update, optimizer = optax.adam(LEARNING_RATE).update(slopes, state.optimizer)
        logs = jnp.clip(cast("Array", optax.apply_updates(state.logs, update)), low, high)
        networks = tuple(moved(settings, one, found) for one, found in zip(state.networks, pulls, strict=True))
        return CodesignState(networks, logs, optimizer)

    return cast("CodesignState", jax.lax.fori_loop(0, count, one_step, state))
