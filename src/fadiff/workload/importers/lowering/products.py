"""Matrix products as layers: which axes become groups, rows, channels, and how the operands arrive.

An axis of both inputs and of the output is a group (G), one that is summed over an input channel (C), one of the left
input alone a row, one of the right input alone an output channel (K). The left input arrives on the input port. The
right one is W: parameters, or an activation on the weight port, as keys and values of attention are. Parameters on the
left trade places with the right input.

Rows keep what they are in the layer that made them: rows of an image stay P and Q, so that a linear layer over pixels
is a 1x1 convolution and can be fused with convolutions row by row. Rows that are mixed with other axes become N.

Keys that were repeated for several query heads (grouped-query attention) are not repeated here: the heads that share
them are rows of one group, which is the same product with the words that are really there.
"""

from dataclasses import replace
from math import prod
from typing import NamedTuple

from fadiff.workload.importers.lowering.drafts import Draft, Net, Operand, Vector
from fadiff.workload.importers.lowering.layout import Atom, Axis, Layout, joined, reshaped, whole
from fadiff.workload.importers.lowering.values import Part, Value
from fadiff.workload.importers.operators import ImportFailure, Product
from fadiff.workload.layer import Dims, Port, VectorOp


class Letters(NamedTuple):
    """The letters of a product by what they are, each in the order of the output (channels: of the input)."""

    groups: str
    rows: str
    outs: str
    channels: str


class Side(NamedTuple):
    """One operand: its letters, and the size of each."""

    letters: str
    size: dict[str, int]
    value: Value | None


def product(net: Net, number: int, operator: Product) -> None:
    """One MAC layer."""
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    left, right = (
        Side(
            letters,
            dict(zip(letters, net.graph.shape(tensor), strict=True)),
            None if tensor in net.fixed else net.values[tensor],
        )
        for letters, tensor in zip((operator.left, operator.right), operator.inputs[:2], strict=True)
    )
    source, weight = (right, left) if left.value is None else (left, right)
    if source.value is None:
        raise ImportFailure(f"{operator.type} {operator.name!r} multiplies two constants: fold them before the export")
    letters = _classified(operator, source, weight)
    outer = all(source.size[letter] == 1 for letter in letters.channels)
    if outer and not source.value.sources and (weight.value is None or not weight.value.sources):
        # An outer product of network inputs and constants: angles of positions, made before the network runs.
        net.values[name] = Value(shape, (Part(None),))
        net.folded[number] = "network input"
        return
    made = _layer(net, number, operator, letters, source, weight)
    net.values[name] = made
    if len(operator.inputs) > 2 and operator.inputs[2]:
        layer = max(made.layers)
        net.drafts[layer].vectors[number] = Vector("bias", frozenset({"add"}), ())


def _classified(operator: Product, source: Side, weight: Side) -> Letters:
    groups, rows, outs = "", "", ""
    for letter in operator.out:
        in_source, in_weight = source.size.get(letter, 1), weight.size.get(letter, 1)
        if letter not in weight.size or (in_weight == 1 and in_source > 1):
            rows += letter
        elif letter not in source.size or (in_source == 1 and in_weight > 1):
            outs += letter
        else:
            groups += letter
    channels = "".join(letter for letter in source.letters if letter in weight.size and letter not in operator.out)
    return Letters(groups, rows, outs, channels)


def _layer(net: Net, number: int, operator: Product, letters: Letters, source: Side, weight: Side) -> Value:
    size = {**source.size, **{k: max(v, source.size.get(k, 1)) for k, v in weight.size.items()}}
    shared = _shared_weights(weight, letters)
    source, letters = _with_shared_rows(source, letters, shared)
    dims, operands = read_rows(net, source, letters)
    dims = dims._replace(
        G=prod(source.size[x] for x in letters.groups),
        K=prod(size[x] for x in letters.outs),
        C=prod(size[x] for x in letters.channels),
    )
    operands += _weight_operands(net, weight, letters, dims)
    layer = net.add(Draft(operator.label, number, "mac", dims, _with_dependencies(operands)))
    found = _rows_of_source(net, source, letters.rows)
    axes = _output_axes(operator.out, letters, {**size, **source.size}, None if found is None else found[1], shared)
    return net.output(layer, net.graph.shape(operator.outputs[0]), axes)


def _with_shared_rows(source: Side, letters: Letters, shared: dict[str, int]) -> tuple[Side, Letters]:
    """The input with letters split in two where several members of a group share their weights: they are rows then."""
    for letter, count in shared.items():
        inner = _shared(letter)
        place = source.letters.index(letter)
        shape = list(source.size.values())
        shape[place : place + 1] = [shape[place] // count, count]
        value = source.value
        assert value is not None
        split = replace(value, shape=tuple(shape), parts=tuple(_split(part, shape) for part in value.parts))
        split = replace(split, hint=None if value.hint is None else _split(value.hint, shape))
        text = source.letters.replace(letter, letter + inner)
        source = Side(text, dict(zip(text, shape, strict=True)), split)
        letters = letters._replace(rows=inner + letters.rows)
    return source, letters


def _shared(letter: str) -> str:
    """The letter for rows that were members of a group: one that no equation uses."""
    return chr(0xE000 + ord(letter))


def _split(part: Part, shape: list[int]) -> Part:
    return replace(part, axes=None if part.axes is None else reshaped(part.axes, shape))


def read_rows(net: Net, source: Side, letters: Letters) -> tuple[Dims, list[Operand]]:
    """N, P and Q of a layer that reads rows of an input, and the operands on its input port."""
    found = _rows_of_source(net, source, letters.rows)
    if found is not None:
        (n, p, q), where = found
        return Dims(N=n, P=p, Q=q), _source_operands(net, source, letters, where, n, exact_rows=True)
    rows = prod(source.size[x] for x in letters.rows)
    return Dims(N=rows), _source_operands(net, source, letters, _source_axes(source), rows, exact_rows=False)


def _shared_weights(weight: Side, letters: Letters) -> dict[str, int]:
    """For letters of groups: how many members share their weights, because these were repeated for them."""
    part = weight.value.view if weight.value is not None else None
    if part is None or part.axes is None:
        return {}
    shared: dict[str, int] = {}
    for letter in letters.groups:
        axis = part.axes[weight.letters.index(letter)]
        if axis and axis[-1].of == "b" and all(atom.of != "b" for atom in axis[:-1]):
            shared[letter] = axis[-1].size
    return shared


def _source_axes(source: Side) -> dict[str, Axis] | None:
    """Where the letters of the input lie in the tensor of its first layer; None where that is not known."""
    part = None if source.value is None else source.value.like
    if part is None or part.axes is None or part.padded is not None:
        return None
    return dict(zip(source.letters, part.axes, strict=True))


def _rows_of_source(net: Net, source: Side, rows: str) -> tuple[tuple[int, int, int], dict[str, Axis]] | None:
    """N, P and Q, if the rows of a product are exactly those of the stored tensor, and where its letters lie there."""
    where = _source_axes(source)
    if where is None or source.value is None:
        return None
    part = source.value.like
    if part is None or part.layer is None:
        return None
    sizes = net.drafts[part.layer].sizes(part.resizes)
    atoms = [atom for letter in rows for atom in where[letter]]
    if any(atom.of in ("c", "b", "x") for atom in atoms):
        return None
    for of in ("n", "p", "q"):
        if joined(atom for atom in atoms if atom.of == of) != whole(of, sizes[of]):
            return None
    return (sizes["n"], sizes["p"], sizes["q"]), where


def _source_operands(
    net: Net, source: Side, letters: Letters, where: dict[str, Axis] | None, rows: int, *, exact_rows: bool
) -> list[Operand]:
    value = source.value
    assert value is not None
    if not value.sources:
        return [Operand(None, "input")]
    if where is None or not value.parts:
        return scattered(value, "input")
    if len(value.parts) > 1:
        # A concatenation is read piece by piece where it runs along the channels.
        if exact_rows and not letters.groups and letters.channels == source.letters[value.axis]:
            return [_piece(part, value.reason or part.reason) for part in value.parts]
        return scattered(value, "input", "it is a concatenation, but not of input channels")
    part = value.view
    assert part is not None
    assert part.layer is not None
    sizes = net.drafts[part.layer].sizes(part.resizes)
    channels = joined(atom for letter in (*letters.groups, *letters.channels) for atom in where[letter])
    if exact_rows:
        view: VectorOp | None = "reshape" if part.viewed else None
        exact = channels == whole("c", sizes["c"]) and value.keeps_channels
        return [Operand(part.layer, "input", part.resizes, view, exact, value.reason)]
    flat = (*whole("c", sizes["c"]), *whole("p", sizes["p"]), *whole("q", sizes["q"]))
    row_atoms = joined(atom for letter in letters.rows for atom in where[letter])
    if channels == flat and row_atoms == whole("n", sizes["n"]) and not letters.groups:
        return [Operand(part.layer, "input", part.resizes, "flatten", True, value.reason)]
    view = "reshape" if sizes["n"] != rows else "transpose"
    return [Operand(part.layer, "input", part.resizes, view, False, value.reason)]


def _piece(part: Part, reason: str | None) -> Operand:
    return Operand(part.layer, "input", part.resizes, reason=reason if part.layer is not None else None)


def scattered(value: Value, port: Port, reason: str = "its layout is not known") -> list[Operand]:
    """A dependency on every layer whose words are in a value."""
    why = value.reason or reason
    found = [Operand(layer, port, resizes, exact=False, reason=why) for layer, resizes in sorted(value.sources)]
    return found or [Operand(None, port)]


def _weight_operands(net: Net, weight: Side, letters: Letters, dims: Dims) -> list[Operand]:
    """W, where it is an activation.

    Rows of its producer are the input channels, or, after a transpose, the output channels. Its words must be there as
    a whole before the product starts, which the rule *whole* asks of every weight port.
    """
    value = weight.value
    if value is None:
        return []
    if not value.sources:
        return [Operand(None, "weight")]
    part = value.view
    if part is None or part.axes is None or part.layer is None:
        return scattered(value, "weight")
    where = dict(zip(weight.letters, part.axes, strict=True))
    outs = joined(atom for letter in letters.outs for atom in where[letter])
    view: VectorOp | None = "reshape" if part.viewed else None
    if any(atom.of in ("n", "p", "q") for atom in outs):
        view = "transpose"
    producer = net.drafts[part.layer].dims
    groups = joined(atom for letter in letters.groups for atom in where[letter] if atom.of != "b")
    in_order = groups == joined([Atom("c", dims.G, producer.K)]) and value.keeps_channels
    exact = producer.G != dims.G or in_order
    return [Operand(part.layer, "weight", part.resizes, view, exact, value.reason)]


def _with_dependencies(operands: list[Operand]) -> list[Operand]:
    """At most one operand on the weight port: further layers that W waits for are waited for on the input port.

    All input operands are then read from DRAM, where it does not matter to the counts how many there are.
    """
    weights = [operand for operand in operands if operand.port == "weight"]
    if len(weights) <= 1:
        return operands
    why = "the layer waits for several tensors on its weight port"
    inputs = [operand for operand in operands if operand.port == "input"]
    inputs = [o if o.layer is None else _blocked(o, o.reason or why, "input") for o in inputs]
    return [*inputs, *(_blocked(o, o.reason or why, "input") for o in weights[:-1]), weights[-1]]


def _blocked(operand: Operand, reason: str, port: Port) -> Operand:
    return Operand(operand.layer, port, operand.resizes, None, False, reason)


def _output_axes(
    out: str, letters: Letters, size: dict[str, int], where: dict[str, Axis] | None, shared: dict[str, int]
) -> Layout:
    """Where the letters of the output lie in what the layer stores: channels are groups, then K; rows N, P, Q."""
    axis: dict[str, list[Atom]] = {}
    inner = 1
    for letter in reversed(letters.groups + letters.outs):
        axis[letter] = [Atom("c", size[letter], inner)]
        inner *= size[letter]
    inner = 1
    for letter in reversed(letters.rows):
        axis[letter] = [Atom("n", size[letter], inner)] if where is None else list(where[letter])
        inner *= size[letter]
    return tuple(joined([*axis[x], *(axis[_shared(x)] if x in shared else ())]) for x in out)
