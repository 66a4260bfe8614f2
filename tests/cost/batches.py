"""Batches of schedules of one workload, packed as the model's arrays, and a few words to handle them."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from fadiff.cost.arrays import pack_schedule
from fadiff.schedule import Group, Trips
from fadiff.workload import Dims, Input, Layer
from oracle import schedules

LAYERS = (
    Layer("a", "mac", Dims(K=4, C=3, P=8, Q=8, R=3, S=3), (Input(None),)),
    Layer("b", "mac", Dims(K=4, C=4, P=8, Q=8, R=3, S=3), (Input("a"),)),
    Layer("s", "add", Dims(K=4, P=8, Q=8), (Input("b", "addend"), Input("a", "addend"))),
    Layer("d", "mac", Dims(K=6, C=4, P=4, Q=4, R=3, S=3), (Input("s"),), stride=(2, 2)),
    Layer("k", "mac", Dims(N=4, K=6, C=2), (Input(None),), repeat=3),
    Layer("qk", "mac", Dims(G=2, N=4, K=4, C=3), (Input(None), Input("k", "weight")), repeat=3),
    Layer("av", "mac", Dims(G=2, N=4, K=3, C=4), (Input("qk"),), repeat=3),
)
"""A residual block, a strided convolution, and attention, three times, whose keys arrive over the weight port."""


@st.composite
def one_schedule(draw):
    """A legal schedule of the workload above; the groups are drawn too."""
    power = st.sampled_from((1, 2, 4))
    image = Trips(P=draw(power), Q=draw(power))
    groups = draw(schedules.grouped(["a", "b", "s", "d"], image))
    heads = Trips(G=draw(st.sampled_from((1, 2))), N=draw(power), X=draw(power))
    if draw(st.booleans()):
        groups += [Group(("k",)), Group(("qk", "av"), heads, draw(schedules.nestings("GNPQX")))]
    else:
        groups += [Group(("k", "qk")), Group(("av",))]
    return replace(draw(schedules.scheduled(LAYERS, groups)), hardware=schedules.MACHINE)


def stacked(batch, axis):
    """Packed schedules as one, a new axis for the batch."""
    packed = [pack_schedule(schedule) for schedule in batch]

    def stack(*parts):
        if isinstance(parts[0], tuple):
            return type(parts[0])(*(stack(*inner) for inner in zip(*parts, strict=True)))
        return np.stack(parts, axis=axis)

    return stack(*packed)


def leaves(values, prefix=""):
    """(name, array) of every array inside nested named tuples."""
    for name, value in values._asdict().items():
        if hasattr(value, "_asdict"):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
