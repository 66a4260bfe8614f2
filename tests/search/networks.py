"""Small networks, a small machine, and schedules made of mappings that tests write or draw."""

from dataclasses import replace
from math import prod

import numpy as np

from execute.builders import add, group, mac
from fadiff.hardware import Hardware, Picojoules, WordsPerCycle
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.search.space import ORDER1, ORDER2, SLIDING_ORDERS3
from fadiff.workload import DIMS, Dims, Layer, Workload

MACHINE = Hardware(
    name="toy",
    rows=4,
    cols=4,
    l1_bytes=256,
    l2_bytes=1024,
    pj=Picojoules(mac=0.5608, l0=0.48746, l1=1.2, l2=0.9, l3=100.0),
    words_per_cycle=WordsPerCycle(l3=2.0, l2=8.0, l1_per_column=2.0),
    online_softmax=True,
)


def machine(**changes) -> Hardware:
    return replace(MACHINE, **changes)


def network(*layers: Layer) -> Workload:
    return Workload("small", layers)


def conv_chain() -> Workload:
    """A convolution with pooling, one with a stride, and a 1x1."""
    return network(
        mac("a", "K4 C2 P8 Q4 R3 S3", epilogue=("relu", "max_pool"), out=(4, 4)),
        mac("b", "K4 C4 P2 Q2 R3 S3", "a", stride=(2, 2)),
        mac("c", "K6 C4 P2 Q2", "b"),
    )


def residual() -> Workload:
    """A block with a shortcut, and a 1x1 after it."""
    return network(
        mac("a", "K4 C2 P4 Q4"),
        mac("b", "K4 C4 P4 Q4 R3 S3", "a"),
        add("s", "K4 P4 Q4", "b", "a"),
        mac("c", "K2 C4 P4 Q4", "s"),
    )


def separable() -> Workload:
    """Depthwise, then pointwise."""
    return network(mac("dw", "G8 P4 Q4 R3 S3"), mac("pw", "K6 C8 P4 Q4", "dw"))


def attention() -> Workload:
    """Keys over the weight port of the scores, scores times values; two heads, three times."""
    return network(
        mac("k", "G2 N4 K4 C3", epilogue=("transpose",), repeat=3),
        mac("qk", "G2 N6 K4 C4", None, ("k", "weight"), epilogue=("softmax",), repeat=3),
        mac("av", "G2 N6 K4 C4", "qk", repeat=3),
    )


def feed_forward() -> Workload:
    """A wide layer between two narrow ones, which may share a channel loop."""
    return network(mac("up", "N6 K8 C4", epilogue=("gelu",)), mac("down", "N6 K4 C8", "up"))


def concatenation() -> Workload:
    """Two branches side by side in the channels of a third layer."""
    return network(
        mac("a", "K2 C2 P4 Q4"),
        mac("b", "K4 C2 P4 Q4 R3 S3"),
        mac("c", "K4 C6 P4 Q4", "a", "b"),
    )


NETWORKS = {
    build.__name__: build() for build in (conv_chain, residual, separable, attention, feed_forward, concatenation)
}


def primes(number: int) -> list[int]:
    """Prime factors, repeated as often as they divide."""
    found = [p for p in range(2, number + 1) if number % p == 0]
    return [] if number == 1 else [found[0], *primes(number // found[0])]


def scheduled(workload: Workload, hardware: Hardware, groups, factors, order3) -> Schedule:
    """`factors` ``[5, 8]`` by layer: spatial, t0, t1, t2 and what is left of t3 inside the shared loops.

    `order3` numbers the L3 order in SLIDING_ORDERS3, for all layers or by layer.
    """
    group_of = {name: one for one in groups for name in one.layers}
    mappings = {}
    for name, parts in factors.items():
        shared = shared_trips(group_of[name], name)
        spatial, l0, l1, l2, l3 = (Dims(*(round(float(f)) for f in part)) for part in parts)
        whole = Dims(*(f * shared.get(dim, 1) for dim, f in zip(DIMS, l3, strict=True)))
        number = order3[name] if isinstance(order3, dict) else order3
        mappings[name] = Mapping(spatial, l0, l1, l2, whole, ORDER1, ORDER2, SLIDING_ORDERS3[number])
    return Schedule(workload, hardware, tuple(groups), mappings)


def shared_trips(one: Group, name: str) -> dict[str, int]:
    """How often the group's loops cut each dim of a layer."""
    trips = one.trips._asdict()
    x = trips.pop("X")
    return trips if x == 1 else {**trips, ("K" if name == one.layers[0] else "C"): x}


def draw_factors(random: np.random.Generator, layer: Layer, one: Group, slots=None) -> np.ndarray:
    """Every prime of every dim in a random slot: any that the model knows, or those that `slots` gives for a dim."""
    shared = shared_trips(one, layer.name)
    factors = np.ones((5, 8), dtype=np.int64)
    for d, (dim, size) in enumerate(zip(DIMS, layer.dims, strict=True)):
        places = slots(dim) if slots else [*((0,) if dim in "KCG" else ()), *((1,) if dim in "NPQ" else ()), 2, 3, 4]
        for prime in primes(size // shared.get(dim, 1)):
            factors[random.choice(places), d] *= prime
    return factors


def alone(*names: str) -> list[Group]:
    return [Group((name,)) for name in names]


def cut_with(workload: Workload, one: Group) -> list[Group]:
    """One group, and every other layer on its own, in an order that runs."""
    names = workload.topological
    first = min(names.index(name) for name in one.layers)
    before = [name for name in names[:first] if name not in one.layers]
    after = [name for name in names[first:] if name not in one.layers]
    return [*alone(*before), one, *alone(*after)]


def words(factors: np.ndarray) -> list[int]:
    """Products over slots: the sizes that a mapping covers."""
    return [round(float(prod(part))) for part in factors.T]


__all__ = [
    "MACHINE", "NETWORKS", "add", "alone", "cut_with", "draw_factors", "group", "mac", "machine", "network", "primes",
    "scheduled", "shared_trips", "words",
]  # fmt: skip
