"""Hypothesis strategies: tiny legal schedules, small enough to walk."""

from dataclasses import replace

from hypothesis import strategies as st

from fadiff.hardware import Hardware, Picojoules, WordsPerCycle
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import DIMS, Dims, Input, Layer, Workload

MACHINE = Hardware(
    name="roomy",
    rows=512,
    cols=48,
    l1_bytes=2**30,
    l2_bytes=2**30,
    pj=Picojoules(mac=0.5608, l0=0.48746, l1=1.7, l2=3.4, l3=100.0),
    words_per_cycle=WordsPerCycle(l3=3.0, l2=20.0, l1_per_column=2.0),
    spatial_rows=("C", "R", "S"),
    spatial_cols=("K", "G"),
    spill_words=3,
)
PRIMES = (2, 3, 5, 7, 11, 13)

small = st.sampled_from((1, 1, 2))
pairs_of_small = st.tuples(small, small)


def _primes(number):
    factors = []
    for prime in PRIMES:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
    assert number == 1
    return factors


@st.composite
def machines(draw):
    return replace(MACHINE, overlap=draw(st.sampled_from(("full", "none"))))


@st.composite
def sizes(draw, most_macs):
    """Sizes of the eight loops, with at most so many MACs."""
    found = {}
    for dim in "PRQSKCGN":
        found[dim] = draw(st.sampled_from([size for size in (1, 1, 2, 3, 4, 6) if size <= most_macs]))
        most_macs //= found[dim]
    return Dims(**found)


@st.composite
def mappings(draw, dims, shared=None, complete=False):
    """A mapping whose L3 factors hold the shared trip counts; a complete one spills nothing."""
    shared = shared or {}
    factors = {level: dict.fromkeys(DIMS, 1) for level in ("spatial", "l0", "l1", "l2", "l3")}
    for dim, size in zip(DIMS, dims, strict=True):
        levels = ["l3", "l2", "l1"] + ["spatial"] * (dim in "GKCRS") + ["l0"] * (dim in "NPQ")
        for prime in _primes(size // shared.get(dim, 1)):
            factors[draw(st.sampled_from(levels))][dim] *= prime
        factors["l3"][dim] *= shared.get(dim, 1)
    orders = [draw(st.permutations(DIMS)) for _ in range(3)]
    if complete:
        # Sums are complete where loops over C, R, S stand inside the loops over outputs.
        orders = [sorted(order, key=lambda dim: dim in "CRS") for order in orders]
        if any(factors["l2"][dim] > 1 for dim in "GNKPQ"):
            for dim in "CRS":
                factors["l1"][dim] *= factors["l3"][dim]
                factors["l3"][dim] = 1
    order1, order2, order3 = ("".join(order) for order in orders)
    return Mapping(
        **{level: Dims(**values) for level, values in factors.items()}, order1=order1, order2=order2, order3=order3
    )


@st.composite
def scheduled(draw, layers, groups):
    """Layers and groups as a schedule, with mappings drawn for them."""
    workload = Workload("drawn", tuple(layers))
    group_of = {name: group for group in groups for name in group.layers}
    found = {}
    for layer in layers:
        if layer.kind == "add":
            continue
        group = group_of[layer.name]
        shared = {dim: getattr(group.trips, dim) for dim in "GNPQ"}
        if group.trips.X > 1:
            shared["K" if layer.name == group.layers[0] else "C"] = group.trips.X
        fused = any(o.source == layer.name for name in group.layers for o in workload[name].inputs)
        found[layer.name] = draw(mappings(layer.dims, shared, complete=fused))
    return Schedule(workload, draw(machines()), tuple(groups), found)


@st.composite
def grouped(draw, names, trips, splits=None, loops=None):
    """A cut of layers in execution order into groups; a layer on its own may share loops too."""
    if splits is None:
        splits = [draw(st.booleans()) for _ in names[1:]]
    parts = [[names[0]]]
    for name, split in zip(names[1:], splits, strict=True):
        if split:
            parts.append([name])
        else:
            parts[-1].append(name)
    return [
        Group(tuple(part), trips if len(part) > 1 or draw(st.booleans()) else Trips(), loops or draw(nestings()))
        for part in parts
    ]


@st.composite
def nestings(draw, loops="GNPQ"):
    """Nestings of the shared loops, P outside Q."""
    order = draw(st.permutations(loops))
    p, q = sorted((order.index("P"), order.index("Q")))
    order[p], order[q] = "P", "Q"
    return "".join(order)


@st.composite
def single_layers(draw):
    """One MAC layer, on its own."""
    dims = draw(sizes(most_macs=1500))
    strides = st.tuples(st.integers(1, 3), st.integers(1, 3))
    layer = Layer("a", "mac", dims, (Input(None),), stride=draw(strides), dilation=draw(strides))
    trips = Trips()
    if draw(st.booleans()):
        divisors = {d: [t for t in (1, 2, 3) if getattr(dims, d) % t == 0] for d in "GNPQ"}
        trips = Trips(**{d: draw(st.sampled_from(t)) for d, t in divisors.items()})
    return draw(scheduled([layer], [Group(("a",), trips, draw(nestings()))]))


@st.composite
def shared_trips(draw, most=3, loops="NPQ", least=1):
    """Trip counts of the shared loops; where `least` is more than 1, P and Q have at least so many."""
    if least > 1:
        return Trips(P=draw(st.integers(least, most)), Q=draw(st.integers(least, most)))
    trips, room = {}, 8
    for loop in draw(st.permutations(loops)):
        trips[loop] = draw(st.sampled_from([t for t in (1, 1, *range(2, most + 1)) if t <= room]))
        room //= trips[loop]
    return Trips(**trips)


@st.composite
def convolutions(draw, name, inputs, image, channels, batch, groups, plain=False, trips=None, most_macs=3000):
    """A convolution of (rows, cols) stored outputs and (in, out) channels, and the image it reads, padding apart.

    A plain one has no stride, and its outputs are stored as they are computed.
    """
    epilogue, out = (), None
    rows, cols = image
    if not plain and trips and rows % (2 * trips.P) == 0 and draw(st.booleans()):
        epilogue, out, rows = ("upsample",), image, rows // 2
    elif not plain and rows * cols <= 16:
        pool = draw(st.sampled_from(((1, 1), (1, 1), (2, 2), (1, 2))))
        if pool != (1, 1):
            epilogue, out, (rows, cols) = ("max_pool",), image, (rows * pool[0], cols * pool[1])
    stride = draw(pairs_of_small) if not plain and rows * cols <= 16 else (1, 1)
    dims = Dims(G=groups, N=batch, K=channels[1] // groups, C=channels[0] // groups, P=rows, Q=cols)
    kernels = [(1, 1), (2, 3), (3, 2), (3, 3)]
    room = most_macs // (batch * dims.K * channels[0] * rows * cols)
    kernel = draw(st.sampled_from([k for k in kernels if k[0] * k[1] <= max(1, room)]))
    layer = Layer(
        name,
        "mac",
        dims._replace(R=kernel[0], S=kernel[1]),
        inputs,
        stride=stride,
        dilation=draw(pairs_of_small),
        epilogue=epilogue,
        out=out,
    )
    return layer, (rows * stride[0], cols * stride[1])


@st.composite
def chains(draw, plain=False, most_trips=3, least_trips=1, images_inside=False):
    """Two or three convolutions in a row, cut into groups, perhaps with a reader outside.

    With images inside, P and Q nest inside the other shared loops: image after image.
    """
    trips = draw(shared_trips(most_trips, "NPQG" if draw(st.booleans()) else "NPQ", least_trips))
    common = trips.G * draw(small)
    width = [common * draw(small) for _ in range(draw(st.integers(3, 4)))]
    image = (trips.P * draw(small), trips.Q * draw(small))
    batch = trips.N * draw(small)
    layers = []
    for i in reversed(range(len(width) - 1)):
        layer, image = draw(
            convolutions(
                "abc"[i],
                (Input("abc"[i - 1] if i else None),),
                image,
                (width[i], width[i + 1]),
                batch,
                common if trips.G > 1 else draw(st.sampled_from((1, common))),
                plain,
                trips,
            )
        )
        layers.insert(0, layer)
    names = [layer.name for layer in layers]
    splits = [False] * len(names[1:]) if plain else None
    groups = draw(grouped(names, trips, splits, "GNPQ" if images_inside else None))
    if draw(st.booleans()):
        layers, groups = _with_reader(layers, groups, draw(st.sampled_from(layers)))
    return draw(scheduled(layers, groups))


def _with_reader(layers, groups, source):
    """The same network with one more layer, in a group of its own, that reads one of its tensors."""
    rows, cols = source.stored
    dims = Dims(N=source.dims.N, C=source.dims.G * source.dims.K, P=rows, Q=cols)
    return [*layers, Layer("reader", "mac", dims, (Input(source.name),))], [*groups, Group(("reader",))]


@st.composite
def residuals(draw, plain=False, most_trips=3, images_inside=False):
    """a -> b -> s = b + a (and perhaps a network input), then perhaps a convolution."""
    trips = draw(shared_trips(most_trips))
    batch, wide = trips.N * draw(small), draw(small)
    image = (trips.P * draw(small), trips.Q * draw(small))
    layers = []
    if draw(st.booleans()):
        layer, image = draw(convolutions("d", (Input("s"),), image, (wide, draw(small)), batch, 1, plain))
        layers = [layer]
    dims = Dims(N=batch, K=wide, P=image[0], Q=image[1])
    addends = [Input("b", "addend"), Input("a", "addend"), *[Input(None, "addend")] * draw(st.integers(0, 1))]
    layers.insert(0, Layer("s", "add", dims, tuple(draw(st.permutations(addends)))))
    layer, _ = draw(convolutions("b", (Input("a"),), image, (wide, wide), batch, 1, plain=True))
    layers.insert(0, layer)
    layer, _ = draw(convolutions("a", (Input(None),), image, (draw(small), wide), batch, 1, plain))
    layers.insert(0, layer)
    names = [layer.name for layer in layers]
    splits = [False] * len(names[1:]) if plain else None
    groups = draw(grouped(names, trips, splits, "GNPQ" if images_inside else None))
    if draw(st.booleans()):
        layers, groups = _with_reader(layers, groups, draw(st.sampled_from(layers)))
    return draw(scheduled(layers, groups))


@st.composite
def channel_loops(draw):
    """Two layers that share X, a part of the channels between them: attention, an FFN, convolution and 1x1."""
    trips = draw(shared_trips(3, "GN" if draw(st.booleans()) else "GNPQ"))._replace(X=draw(st.sampled_from((1, 2, 3))))
    groups, batch, wide = trips.G * draw(small), trips.N * draw(small), trips.X * draw(small)
    image = (trips.P * draw(small), trips.Q * draw(small))
    stride = draw(pairs_of_small) if image[0] * image[1] <= 4 else (1, 1)
    v_dims = Dims(G=groups, N=batch, K=draw(small), C=wide, P=image[0], Q=image[1])
    v = Layer("v", "mac", v_dims, (Input("u"),), stride=stride)
    image = (image[0] * stride[0], image[1] * stride[1])
    channels = (groups * draw(small), groups * wide)
    u, _ = draw(convolutions("u", (Input(None),), image, channels, batch, groups, plain=draw(st.booleans())))
    loops = draw(nestings("GNPQX"))
    return draw(scheduled([u, v], [Group(("u", "v"), trips, loops)]))


@st.composite
def weight_ports(draw):
    """Keys that become the weights of a product; queries from outside or from a layer of the group."""
    heads = draw(st.sampled_from((1, 2, 3)))
    keys, rows, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    batched = draw(st.booleans())
    spread = {"G": heads, "K": width} if batched else {"K": heads * width}
    layers = [Layer("k", "mac", Dims(N=keys, C=draw(small), **spread), (Input(None),), epilogue=("transpose",))]
    if draw(st.booleans()):
        layers.append(Layer("q", "mac", Dims(N=rows, C=draw(small), **spread), (Input(None),)))
    source = "q" if len(layers) == 2 else None
    dims = Dims(G=heads, N=rows, K=keys, C=width)
    layers.append(Layer("qk", "mac", dims, (Input(source), Input("k", "weight"))))
    if draw(st.booleans()):
        layers = [*layers[-2::-1], layers[-1]]  # queries before keys
    names = [layer.name for layer in layers]
    trips = Trips(G=heads if batched and draw(st.booleans()) else 1)
    splits = [len(names) == 3 and draw(st.booleans()), draw(st.booleans())][-len(names) + 1 :]
    if len(names) == 3 and splits == [False, True]:
        splits = [True, True]  # keys and queries alone would have no common sink
    return draw(scheduled(layers, draw(grouped(names, trips, splits))))


@st.composite
def concatenations(draw, images_inside=False):
    """Two layers, and perhaps a network input, side by side in the channels of a third."""
    trips = draw(shared_trips())
    batch, image = trips.N * draw(small), (trips.P * draw(small), trips.Q * draw(small))
    widths = {"a": draw(st.integers(1, 2)), "b": draw(st.integers(1, 3)), None: draw(st.integers(0, 2))}
    operands = [Input(source) for source, width in widths.items() if width]
    total = sum(widths.values())
    c, image = draw(
        convolutions(
            "c",
            tuple(draw(st.permutations(operands))),
            image,
            (total, total),
            batch,
            draw(st.sampled_from([g for g in (1, 2, 3) if total % g == 0])),
            plain=draw(st.booleans()),
            most_macs=2000,
        )
    )
    layers = [
        draw(convolutions(name, (Input(None),), image, (draw(small), widths[name]), batch, 1, plain=True))[0]
        for name in draw(st.permutations("ab"))
    ]
    names = [layer.name for layer in layers]
    splits = draw(st.sampled_from(((True, False), (False, False), (True, True))))
    loops = "GNPQ" if images_inside else None
    return draw(scheduled([*layers, c], draw(grouped([*names, "c"], trips, splits, loops))))


@st.composite
def unfusible(draw):
    """a, then perhaps a group: b reads a part of a, c what b makes beside another part of a and a network input."""
    trips = draw(shared_trips())
    batch, image = trips.N * draw(small), (trips.P * draw(small), trips.Q * draw(small))
    wide, rest = draw(small), draw(st.integers(2, 4))
    operands = [Input("b"), Input("a", fusible=False), *[Input(None)] * draw(st.integers(0, 1))]
    channels = (wide + rest, draw(small))
    c, image = draw(convolutions("c", tuple(draw(st.permutations(operands))), image, channels, batch, 1))
    part = (Input("a", fusible=False),)
    b, _ = draw(convolutions("b", part, image, (draw(small), wide), batch, 1, plain=True))
    a = Layer("a", "mac", draw(sizes(most_macs=200)), (Input(None),))
    addends = [Input("c", "addend"), Input("b", "addend", fusible=False)]
    s = Layer("s", "add", Dims(N=batch, K=channels[1], P=c.stored[0], Q=c.stored[1]), tuple(addends))
    groups = draw(grouped(["b", "c"], trips))
    return draw(scheduled([a, b, c, s], [Group(("a",)), *groups, Group(("s",))]))
