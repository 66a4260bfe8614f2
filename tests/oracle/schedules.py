"""Random small networks and schedules of them, legal but for the capacities, which nobody here looks at.

Every schedule is a function of a kind and a seed: ``draw("chain", 7)``.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from fadiff.hardware import Machine
from fadiff.schedule import Group, Schedule, Trips
from fadiff.workload import Dims, Input, Layer, Workload
from oracle.machines import can_fuse, machine, random_machine
from oracle.mappings import mapping
from oracle.tiles import Misaligned, fused_readers, leads, tiles

Image = tuple[int, int]


def draw(kind: str, seed: int) -> Schedule:
    """A schedule of one of :data:`KINDS`."""
    rng = Random(f"{kind} {seed}")
    return KINDS[kind](rng)


def schedule(
    rng: Random,
    on: Machine,
    layers: list[Layer],
    parts: list[list[str]],
    shares: str = "NPQ",
    *,
    unrolls: bool = False,
) -> Schedule:
    """The layers as a schedule: each part a group if it may be one, with random trips of the loops it may share."""
    if rng.random() < 0.1:
        layers = [replace(layer, repeat=3) for layer in layers]
    workload = Workload("random", tuple(layers))
    groups: list[Group] = []
    for part in parts:
        if len(part) > 1 and can_fuse(on) and _one_sink(workload, part):
            groups.append(_group(rng, workload, tuple(part), shares))
        else:
            groups += [_group(rng, workload, (name,), "GNPQ") for name in part]
    mappings = {
        name: mapping(rng, on, workload, group, workload[name], unrolls=unrolls)
        for group in groups
        for name in group.layers
        if workload[name].is_mac
    }
    return Schedule(workload, on, tuple(groups), mappings)


def _group(rng: Random, workload: Workload, names: tuple[str, ...], shares: str) -> Group:
    """A group with trips that its layers can share: the first of some random ones, at last none at all."""
    members = [workload[name] for name in names]
    if len({layer.dims.G for layer in members}) > 1 or members[0].dims.G == 1:
        shares = shares.replace("G", "")
    # Trips that cut the last layer's dim without idle ones.
    sink = {loop: members[-1].dims.C if loop == "X" else getattr(members[-1].dims, loop) for loop in shares}
    cuts = {loop: [t for t in range(1, 7) if (t - 1) * -(-size // t) < size] for loop, size in sink.items()}
    for _ in range(12):
        trips = Trips(**{loop: rng.choice([1, *cuts[loop]]) for loop in shares})
        found = Group(names, trips, _nesting(rng, trips.X > 1))
        try:
            tiles(workload, found)
        except Misaligned:
            continue
        if _in_time(workload, found) and _whole(members, found):
            return found
    return Group(names)


def _nesting(rng: Random, channels: bool) -> str:
    """An order of the shared loops, P outside Q."""
    order = rng.sample("GNPQX" if channels else "GNPQ", 4 + channels)
    p, q = sorted((order.index("P"), order.index("Q")))
    order[p], order[q] = "P", "Q"
    return "".join(order)


def _one_sink(workload: Workload, names: list[str]) -> bool:
    """Whether every layer but the last is read inside the group: then all lead to the last."""
    group = Group(tuple(names))
    return all(fused_readers(workload, group, name) for name in names[:-1]) and not any(
        operand.source in names and not operand.fusible for name in names for operand in workload[name].inputs
    )


def _in_time(workload: Workload, group: Group) -> bool:
    """Whether every layer has made all its lines by the last trip, its lead before the first one."""
    found = tiles(workload, group)
    for axis, loop in enumerate("PQ"):
        if (trips := group.trips[Trips._fields.index(loop)]) > 1:
            for name, lead in leads(workload, group, axis).items():
                left = workload[name].stored[axis] - lead.stored if fused_readers(workload, group, name) else 0
                if -(-left // found[name][loop].stored) > trips:
                    return False
    return True


def _whole(members: list[Layer], group: Group) -> bool:
    """Whether nobody needs a whole tensor that is made in pieces."""
    names, (g, n, p, q, x) = set(group.layers), group.trips
    transposed = {layer.name for layer in members if "transpose" in layer.epilogue}
    for layer in members:
        fused = [o for o in layer.inputs if o.source in names]
        if any(o.port == "weight" or o.source in transposed for o in fused) and max(n, p, q) > 1:
            return False
        if {"flatten", "global_pool"} & set(layer.epilogue) and max(p, q) > 1:
            return False
        if "flatten" in layer.epilogue and max(g, x) > 1:
            return False
    return True


def _parts(rng: Random, names: list[str]) -> list[list[str]]:
    """Layers in a row, cut at random; whole more often than not."""
    parts = [[names[0]]]
    for name in names[1:]:
        if rng.random() < 0.25:
            parts.append([])
        parts[-1].append(name)
    return parts


# Layers, made from the last one back: each says how large an image it wants to read.


def _pairs(rng: Random, *values: int) -> Image:
    return rng.choice(values), rng.choice(values)


def _conv(
    rng: Random, name: str, inputs: tuple[Input, ...], stored: Image, dims: Dims, most: int = 4000
) -> tuple[Layer, Image]:
    """A convolution with G, N, K, C as in `dims` that stores an image of some size, and the image it reads."""
    (rows, cols), epilogue = stored, ()
    chance = rng.random()
    if chance < 0.2:
        epilogue, rows, cols = ("max_pool",), 2 * rows + rng.randint(0, 1), cols * rng.randint(1, 2)
    elif chance < 0.4 and rows % 2 == 0:
        epilogue, rows = ("upsample",), rows // 2
    elif stored == (1, 1) and chance < 0.6:
        epilogue, rows, cols = ("global_pool",), rng.randint(1, 4), rng.randint(1, 4)
    while True:
        kernel, stride, dilation = _pairs(rng, 1, 2, 3, 3), _pairs(rng, 1, 1, 2, 3), _pairs(rng, 1, 1, 2)
        sized = dims._replace(P=rows, Q=cols, R=kernel[0], S=kernel[1])
        layer = Layer(
            name, "mac", sized, inputs, stride, dilation, epilogue, stored if (rows, cols) != stored else None
        )
        if layer.macs <= most or kernel == (1, 1):
            break
    wanted, reach = (layer.input_rows, layer.input_cols), [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    chance = rng.random()
    if chance < 0.3:  # no padding
        return layer, wanted
    if chance < 0.6:  # as much as keeps the size, as far as the stride lets it
        return layer, tuple(max(1, h - r) for h, r in zip(wanted, reach, strict=True))
    pad = tuple(rng.randint(0, r) for r in reach)
    behind = (rng.randint(1 - s, r) for s, r in zip(stride, reach, strict=True))
    read = tuple(h - p - b for h, p, b in zip(wanted, pad, behind, strict=True))
    if min(read) < 1:
        return layer, wanted
    return (replace(layer, pad=pad), read) if rng.random() < 0.7 else (layer, read)


def _small(rng: Random) -> int:
    return rng.choice((1, 2, 3, 4))


def _image(rng: Random) -> Image:
    return rng.randint(1, 7), rng.randint(1, 5)


def _with_reader(rng: Random, layers: list[Layer], parts: list[list[str]]) -> tuple[list[Layer], list[list[str]]]:
    """Perhaps one more layer, in a group of its own, that reads one of the tensors."""
    if rng.random() < 0.6:
        return layers, parts
    source = rng.choice([layer for layer in layers if "flatten" not in layer.epilogue])
    dims = Dims(N=source.dims.N, C=source.channels, P=source.stored[0], Q=source.stored[1])
    return [*layers, Layer("reader", "mac", dims, (Input(source.name),))], [*parts, ["reader"]]


# Kinds of networks.


def single(rng: Random) -> Schedule:
    """A convolution, a depthwise one, or a product, on its own."""
    kind, (n, k, c) = rng.random(), (_small(rng) for _ in range(3))
    if kind < 0.25:
        layer = Layer("a", "mac", Dims(G=_small(rng), N=rng.randint(1, 9), K=k * 3, C=c * 2), (Input(None),))
    else:
        dims = Dims(G=_small(rng), N=n) if kind < 0.4 else Dims(G=rng.choice((1, 1, 2)), N=min(n, 2), K=k, C=c)
        layer, _ = _conv(rng, "a", (Input(None),), _image(rng), dims)
    return schedule(rng, machine(rng), [layer], [["a"]])


def image_lanes(rng: Random) -> Schedule:
    """A convolution whose rows and columns, and those of its kernel, unroll over lanes that may share inputs."""
    dims = Dims(N=rng.randint(1, 2), K=rng.randint(1, 2), P=rng.randint(2, 9), Q=rng.randint(1, 4))
    dims = dims._replace(R=rng.randint(2, 5), S=rng.randint(1, 3))
    strides = {"stride": _pairs(rng, 1, 1, 2, 3), "dilation": _pairs(rng, 1, 1, 2)}
    layer = Layer("a", "mac", dims, (Input(None),), **strides)
    return schedule(rng, random_machine(rng, image=True), [layer], [["a"]], unrolls=True)


def chain(rng: Random) -> Schedule:
    """Two or three convolutions in a row, perhaps with a reader outside, perhaps ending in a product."""
    count, n, image = rng.randint(2, 3), rng.choice((1, 1, 2, 3)), _image(rng)
    groups = rng.choice((1, 1, 1, 2, 3))
    width = [groups * rng.choice((1, 1, 2)) for _ in range(count + 1)]
    layers: list[Layer] = []
    for i in reversed(range(count)):
        g = groups if rng.random() < 0.8 else 1
        dims = Dims(G=g, N=n, K=width[i + 1] // g, C=width[i] // g)
        layer, image = _conv(rng, "abc"[i], (Input("abc"[i - 1] if i else None),), image, dims)
        layers.insert(0, layer)
    if rng.random() < 0.15:
        last = layers.pop()
        layers.append(replace(last, epilogue=(*last.epilogue, "flatten")))
        features = Dims(N=n, K=3, C=last.channels * last.stored[0] * last.stored[1])
        layers.append(Layer("f", "mac", features, (Input(last.name),)))
    layers, parts = _with_reader(rng, layers, _parts(rng, [layer.name for layer in layers]))
    return schedule(rng, machine(rng, fuses=True), layers, parts, "GNPQ")


def residual(rng: Random) -> Schedule:
    """a -> b -> s = b + a (and perhaps a network input), then perhaps a convolution."""
    n, wide, image, layers = rng.choice((1, 2, 3)), rng.choice((1, 2, 3)), _image(rng), []
    if rng.random() < 0.5:
        layer, image = _conv(rng, "d", (Input("s"),), image, Dims(N=n, K=_small(rng), C=wide))
        layers = [layer]
    addends = [Input("b", "addend"), Input("a", "addend"), *[Input(None, "addend")] * rng.randint(0, 1)]
    rng.shuffle(addends)
    kernel, dilation = _pairs(rng, 1, 3), _pairs(rng, 1, 1, 2)
    same = Dims(N=n, K=wide, C=wide, P=image[0], Q=image[1], R=kernel[0], S=kernel[1])
    layers[:0] = [
        Layer("b", "mac", same, (Input("a"),), dilation=dilation),
        Layer("s", "add", Dims(N=n, K=wide, P=image[0], Q=image[1]), tuple(addends)),
    ]
    first, _ = _conv(rng, "a", (Input(None),), image, Dims(N=n, K=wide, C=_small(rng)))
    layers, parts = _with_reader(rng, [first, *layers], _parts(rng, ["a", *(layer.name for layer in layers)]))
    return schedule(rng, machine(rng, fuses=None if rng.random() < 0.2 else True), layers, parts)


def concatenation(rng: Random) -> Schedule:
    """Two layers, and perhaps a network input, side by side in the channels of a third."""
    n, widths = rng.choice((1, 2)), {"a": rng.randint(1, 2), "b": rng.randint(1, 3), None: rng.randint(0, 2)}
    operands = [Input(source) for source, width in widths.items() if width]
    rng.shuffle(operands)
    total = sum(widths.values())
    groups = rng.choice([g for g in (1, 1, 2, 3) if total % g == 0])
    last, image = _conv(rng, "c", tuple(operands), _image(rng), Dims(G=groups, N=n, K=_small(rng), C=total // groups))
    layers = [
        _conv(rng, name, (Input(None),), image, Dims(N=n, K=widths[name], C=_small(rng)))[0]
        for name in rng.sample("ab", 2)
    ]
    names = [layer.name for layer in layers]
    parts = rng.choice(([[names[0]], [names[1], "c"]], [[*names, "c"]], [[*names, "c"]]))
    return schedule(rng, machine(rng, fuses=True), [*layers, last], parts)


def weight_port(rng: Random) -> Schedule:
    """Keys that become the weights of a product; queries from outside or from a layer of the group."""
    heads, keys, rows, width = (rng.randint(1, 4) for _ in range(4))
    batched = rng.random() < 0.5
    spread = {"G": heads, "K": width} if batched else {"K": heads * width}
    layers = [Layer("k", "mac", Dims(N=keys, C=_small(rng), **spread), (Input(None),), epilogue=("transpose",))]
    if rng.random() < 0.5:
        layers.append(Layer("q", "mac", Dims(N=rows, C=_small(rng), **spread), (Input(None),)))
    query = Input("q" if len(layers) == 2 else None)
    rng.shuffle(layers)
    layers.append(Layer("qk", "mac", Dims(G=heads, N=rows, K=keys, C=width), (query, Input("k", "weight"))))
    names = [layer.name for layer in layers]
    parts = [[names[0]], names[1:]] if rng.random() < 0.3 else [names]
    return schedule(rng, machine(rng, fuses=True), layers, parts, "G")


def channel_loop(rng: Random) -> Schedule:
    """Two layers that share X, a part of the channels between them: attention, an FFN, convolution and 1x1."""
    groups, n, wide = rng.choice((1, 2, 3)), rng.randint(1, 5), rng.randint(1, 7)
    image = _image(rng) if rng.random() < 0.4 else (1, 1)
    stride = _pairs(rng, 1, 2) if image[0] * image[1] <= 6 else (1, 1)
    v = Layer(
        "v", "mac", Dims(G=groups, N=n, K=_small(rng), C=wide, P=image[0], Q=image[1]), (Input("u"),), stride=stride
    )
    image = (v.input_rows, v.input_cols)
    u, _ = _conv(rng, "u", (Input(None),), image, Dims(G=groups, N=n, K=wide, C=_small(rng)))
    return schedule(rng, machine(rng, fuses=True), [u, v], [["u", "v"]], "GNPQX")


def unfusible(rng: Random) -> Schedule:
    """b reads a part of a, c what b makes beside another part of a; a sum reads b in another layout."""
    n, wide, rest = rng.choice((1, 2)), _small(rng), rng.randint(1, 4)
    operands = [Input("b"), Input("a", fusible=False)]
    rng.shuffle(operands)
    k = _small(rng)
    c, image = _conv(rng, "c", tuple(operands), _image(rng), Dims(N=n, K=k, C=wide + rest))
    b, _ = _conv(rng, "b", (Input("a", fusible=False),), image, Dims(N=n, K=wide, C=_small(rng)))
    a, _ = _conv(rng, "a", (Input(None),), _image(rng), Dims(N=n, K=_small(rng), C=_small(rng)))
    addends = (Input("c", "addend"), Input("b", "addend", fusible=False))
    s = Layer("s", "add", Dims(N=n, K=k, P=c.stored[0], Q=c.stored[1]), addends)
    return schedule(rng, machine(rng, fuses=True), [a, b, c, s], [["a"], ["b", "c"], ["s"]])


KINDS: dict[str, Callable[[Random], Schedule]] = {
    kind.__name__: kind
    for kind in (single, image_lanes, chain, residual, concatenation, weight_port, channel_loop, unfusible)
}
