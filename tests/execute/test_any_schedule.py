"""Whatever the loops, outputs are right and no count goes below what must move."""

from hypothesis import given, settings
from hypothesis import strategies as st

from execute.builders import add, group, mac, machine, run
from fadiff.schedule import DEFAULT_ORDER, Group, Mapping, Schedule, Trips
from fadiff.workload import DIMS, Dims, Layer, Workload

orders = st.permutations(DEFAULT_ORDER).map("".join)


@st.composite
def mappings(draw, layer: Layer, shared: Dims):
    """Any factors with the shared trip counts in the L3 ones, and any loop orders."""
    levels: list[list[int]] = []
    for dim, size, trips in zip(DIMS, layer.dims, shared, strict=True):
        rest = size // trips
        factors = []
        for most in (4 if dim in "CKG" else 1, 99 if dim in "NPQ" else 1, 99, 99):
            factors.append(draw(st.sampled_from([f for f in range(1, rest + 1) if rest % f == 0 and f <= most])))
            rest //= factors[-1]
        levels.append([*factors, rest * trips])
    spatial, *temporal = (Dims(*level) for level in zip(*levels, strict=True))
    spatial, moved = _on_array(spatial)
    temporal[1] = Dims(*(a * b for a, b in zip(temporal[1], moved, strict=True)))
    return Mapping(spatial, *temporal, draw(orders), draw(orders), draw(orders))


def _on_array(spatial: Dims) -> tuple[Dims, Dims]:
    """Unrolled factors for four columns; what G would take beside K moves to L1."""
    if spatial.G * spatial.K <= 4:
        return spatial, Dims()
    return spatial._replace(G=1), Dims(G=spatial.G)


@st.composite
def schedules(draw, layers: tuple[Layer, ...], loops: dict[str, tuple[int, ...]], apart: bool = True):
    """The layers as one group with any of the shared trip counts, or each alone."""
    workload = Workload("any", layers)
    fused = not apart or draw(st.booleans())
    trips = Trips(**{dim: draw(st.sampled_from(counts)) for dim, counts in loops.items()}) if fused else Trips()
    names = tuple(layer.name for layer in layers)
    nesting = draw(st.permutations("GN").map("".join)) + "PQ"
    groups = (Group(names, trips, nesting),) if fused else tuple(group(name) for name in names)
    shared = Dims(G=trips.G, N=trips.N, P=trips.P, Q=trips.Q)
    return Schedule(
        workload, machine(), groups, {layer.name: draw(mappings(layer, shared)) for layer in layers if layer.is_mac}
    )


def at_least_once(plan: Schedule) -> None:
    """Runs a schedule: what comes from L3 comes at least once, unless no stride reaches it."""
    result = run(plan)
    for layer in plan.workload.layers:
        counts = result.counts[layer.name]
        if layer.is_mac:
            assert counts.l3_weight >= layer.weight_words
            assert counts.l0_weight_fill >= layer.weight_words
            assert counts.l3_input == counts.l2_input_fill


@settings(max_examples=60)
@given(st.data())
def test_any_tiling_of_a_convolution_computes_it(data):
    layer = mac("c", "G2 N2 K4 C4 P6 Q4 R3 S2", stride=(2, 1), dilation=(1, 2))
    at_least_once(data.draw(schedules((layer,), {"G": (1, 2), "N": (1, 2), "P": (1, 2, 3, 6), "Q": (1, 2, 4)})))


CHAIN = (
    mac("a", "N2 K4 C3 P8 Q8 R3 S3"),
    mac("b", "G4 N2 P8 Q8 R3 S3", "a", dilation=(2, 1), epilogue=("max_pool",), out=(4, 4)),
    mac("c", "N2 K4 C4 P4 Q4 R3 S3", "b"),
    add("s", "N2 K4 P4 Q4", "c", "b"),
    mac("d", "N2 K2 C4 P4 Q4 R5", "s"),
)


@settings(max_examples=60)
@given(st.data())
def test_any_tiling_of_a_chain_computes_it(data):
    at_least_once(data.draw(schedules(CHAIN, {"N": (1, 2), "P": (1, 2, 4), "Q": (1, 2, 4)})))


ATTENTION = (
    mac("k", "N6 K8 C4", epilogue=("transpose",)),
    mac("qk", "G2 N4 K6 C4", None, ("k", "weight"), epilogue=("softmax",)),
    mac("av", "G2 N4 K4 C6", "qk", epilogue=("reshape",)),
    mac("o", "N4 K4 C8", "av"),
)


@settings(max_examples=40)
@given(st.data())
def test_any_tiling_of_attention_computes_it(data):
    plan = data.draw(schedules(ATTENTION, {}))
    run(plan)


@settings(max_examples=40)
@given(st.data(), st.sampled_from(("XGN", "GXN", "GNX", "NXG")), st.sampled_from((2, 3, 6)))
def test_any_channel_loop_computes_attention(data, loops, count):
    layers = (mac("u", "G2 N4 K6 C4"), mac("v", "G2 N4 K4 C6", "u"))
    trips = Trips(G=data.draw(st.sampled_from((1, 2))), N=data.draw(st.sampled_from((1, 2, 4))), X=count)
    tiles = {
        "u": data.draw(mappings(layers[0], Dims(G=trips.G, N=trips.N, K=count))),
        "v": data.draw(mappings(layers[1], Dims(G=trips.G, N=trips.N, C=count))),
    }
    run(Schedule(Workload("x", layers), machine(), (Group(("u", "v"), trips, loops),), tiles))
