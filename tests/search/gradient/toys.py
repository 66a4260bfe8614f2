"""Small networks with loops over K, C, P and R that the tests of the descent share, and schedules as it sees them."""

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.schedule import Schedule
from fadiff.schedule.arrays import pack_schedule
from fadiff.schedule.nest import SHARED
from fadiff.search.gradient import DescentSettings, pack_problem
from fadiff.search.gradient.loss import Seen, look, price_orders, set_scene
from fadiff.search.gradient.penalties import PENALTIES, soft_needs
from fadiff.search.gradient.relaxation import Integers, Relaxed
from search.networks import GEMMINI, add, mac, network, sized

SETTINGS = DescentSettings(restarts=16, steps=200, max_candidates=32)
ROOMY = sized(GEMMINI, scratchpad=65536, accumulator=1024)
TIGHT = sized(GEMMINI, scratchpad=40, accumulator=32)


def pair():
    return network(mac("a", "K8 C8 P8 R3"), mac("b", "K8 C8 P8 R3", "a"))


def chain():
    return network(mac("a", "K8 C4 P8 R3"), *(mac(b, "K8 C8 P8 R3", a) for a, b in ("ab", "bc", "cd", "de")))


def residual():
    shortcut = add("s", "K8 P8", "b", "a")
    return network(mac("a", "K8 C4 P8 R3"), mac("b", "K8 C8 P8 R3", "a"), shortcut, mac("c", "K4 C8 P8", "s"))


def seen(schedule: Schedule, settings=SETTINGS) -> tuple[dict[str, float], np.ndarray]:
    """Penalties by name, and ``[memories, layers]`` bytes while each layer runs, of a schedule as a relaxed one."""
    found, needs = looked(schedule, settings)
    by_name = {penalty.name: float(value) for penalty, value in zip(PENALTIES, found.penalties[:, 0], strict=True)}
    return by_name, needs


def looked(schedule: Schedule, settings=SETTINGS) -> tuple[Seen, np.ndarray]:
    """What the descent sees of a schedule, as its only restart, and the bytes as `seen` has them."""
    problem, packed = pack_problem(schedule.workload, schedule.machine, settings), pack_schedule(schedule)
    layers, edges = problem.arrays.layers.size.shape[-1], problem.arrays.ends.fusible.shape[0]

    def padded(values):
        values = np.asarray(values, dtype=np.float32)
        columns = np.ones((*values.shape[:-1], 1, layers), dtype=np.float32)
        columns[..., 0, problem.position] = values
        return jnp.asarray(columns)

    integers = Integers(padded(packed.mapping.factors), padded(packed.fusion.shared), padded(packed.fusion.tile))
    logs = {(i, d): jnp.log(integers.factors[i, d]) for i in range(len(integers.factors)) for d in range(8)}
    logs |= {(SHARED, d): jnp.log(integers.shared[d]) for d in (0, 1, 4, 5)}
    sigma = np.zeros((1, edges), dtype=np.float32)
    sigma[0, : problem.edges] = [schedule.is_fused(edge) for edge in schedule.workload.edges]
    relaxed = Relaxed(logs, jnp.zeros((8, 1, layers)), jnp.zeros(1), jnp.asarray(sigma))
    orders = np.zeros((len(problem.arrays.orders), layers), dtype=np.int32)
    for at, layer in zip(problem.position, schedule.workload.layers, strict=True):
        for i, order in enumerate(schedule.mappings[layer.name].orders if layer.is_mac else ()):
            orders[i, at] = problem.arrays.orders[i].index(order)
    found, needs = _look(problem.arrays, settings, relaxed, integers, jnp.asarray(orders[:, None]))
    return found, np.asarray(needs)[:, 0, problem.position]


@jax.jit
def _look(arrays, settings, relaxed, integers, orders):
    _, known = price_orders(arrays, settings, integers, relaxed.sigma, orders[None], jnp.float32(1))
    known = {key: values[0] for key, values in known.items()}
    scene = set_scene(arrays, settings, relaxed, integers, orders, known)
    return look(scene), jnp.stack(soft_needs(scene))
