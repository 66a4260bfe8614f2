"""Fused attention operators as the two products they are, with a softmax between them."""

from collections.abc import Sequence

from fadiff.workload.importers.onnx_front_end.node import Node, Shape
from fadiff.workload.importers.operators import Concat, Expand, ImportFailure, Normalize, Product, Slice


def attention(node: Node) -> None:
    """Attention of the standard opset: Q, K, V with heads as an axis or in the last one; mask; past keys, values."""
    heads = node.integer("q_num_heads", 0)
    _check(node, [node.read(place) for place in range(3)], (heads, *[node.integer("kv_num_heads", heads)] * 2))
    q = _heads(node, node.read(0), heads)
    k = _heads(node, node.read(1), node.integer("kv_num_heads", heads))
    v = _heads(node, node.read(2), node.integer("kv_num_heads", heads))
    k = _with_past(node, k, 4, 1)
    v = _with_past(node, v, 5, 2)
    _attend(node, q, k, v, mask=3)


def multi_head_attention(node: Node) -> None:
    """MultiHeadAttention and GroupQueryAttention of ONNX Runtime, with separate queries, keys and values."""
    grouped = node.type == "GroupQueryAttention"
    heads = node.integer("num_heads", 1)
    shared = node.integer("kv_num_heads", heads)
    past = (3, 4) if grouped else (6, 7)
    query = node.shape(0)
    if not node.has(1) and grouped and len(query) == 3 and query[-1] % (heads + 2 * shared) == 0:
        width = query[-1] // (heads + 2 * shared)
        tensors = _sliced(node, node.read(0), (heads * width, shared * width, shared * width))
    elif not (node.has(1) and node.has(2)) or len(query) != 3:
        node.opaque("its queries, keys and values are packed in one tensor", None)
        return
    else:
        tensors = [node.read(0), node.read(1), node.read(2)]
    _check(node, tensors, (heads, shared, shared))
    q = _heads(node, tensors[0], heads)
    k, v = (_heads(node, tensor, shared) for tensor in tensors[1:])
    k, v = _with_past(node, k, past[0], 1), _with_past(node, v, past[1], 2)
    _attend(node, q, k, v, mask=5 if not grouped else None)


def packed_attention(node: Node) -> None:
    """Attention and QAttention of ONNX Runtime: one product makes queries, keys and values."""
    heads = node.integer("num_heads", 1)
    x, weight = node.shape(0), node.shape(1)
    past = 8 if node.type == "QAttention" else 4
    if len(x) != 3 or len(weight) != 2 or x[-1] != weight[0] or node.has(past) or weight[1] % (3 * heads):
        node.opaque("its queries, keys and values are not of one size", None)
        return
    made = node.tensor("qkv", (*x[:2], weight[1]))
    inputs = (node.read(0), node.read(1), *([node.read(2)] if node.has(2) and node.fixed(2) else []))
    node.emit(
        Product(
            name=node.name,
            type=node.type,
            part="qkv",
            inputs=inputs,
            outputs=(made,),
            left="bsk",
            right="kn",
            out="bsn",
        )
    )
    q, k, v = (_heads(node, tensor, heads) for tensor in _sliced(node, made, (weight[1] // 3,) * 3))
    _attend(node, q, k, v, mask=None)


def _check(node: Node, tensors: Sequence[str], heads: Sequence[int]) -> None:
    """Queries, keys and values have heads as an axis, or as a part of the last one, and fit each other."""
    shapes = [node.shape_of(tensor) for tensor in tensors if tensor]
    whole = [
        shape if len(shape) == 4 else (shape[0], count, shape[1], shape[2] // count)
        for shape, count in zip(shapes, heads, strict=False)
        if len(shape) == 4 or (len(shape) == 3 and count > 0 and shape[2] % count == 0)
    ]
    if len(whole) == 3:
        (batch, count, _, width), key, value = whole
        if key[:3] == value[:3] and key[0] == batch and key[3] == width and key[1] and count % key[1] == 0:
            return
    told = ", ".join(str(list(shape)) for shape in shapes)
    raise ImportFailure(f"{node}: queries, keys and values of shapes {told} do not fit together: export it again")


def _sliced(node: Node, tensor: str, widths: tuple[int, ...]) -> list[str]:
    """Parts of the last axis."""
    shape, found, first = node.shape_of(tensor), list[str](), 0
    for width in widths:
        made = node.tensor("slice", (*shape[:-1], width))
        start = (*(0,) * (len(shape) - 1), first)
        step = (1,) * len(shape)
        node.emit(Slice(name=node.name, type=node.type, inputs=(tensor,), outputs=(made,), start=start, step=step))
        found.append(made)
        first += width
    return found


def _heads(node: Node, tensor: str, heads: int) -> str:
    """``[batch, rows, heads*width]`` as ``[batch, heads, rows, width]``."""
    shape = node.shape_of(tensor)
    if len(shape) == 4:
        return tensor
    batch, rows, width = shape
    split_up = node.reshape(tensor, (batch, rows, heads, width // max(heads, 1)))
    return node.transpose(split_up, (0, 2, 1, 3))


def _with_past(node: Node, tensor: str, place: int, output: int) -> str:
    """Keys or values with those of earlier tokens in front of them; all of them may be wanted as an output."""
    shape = node.shape_of(tensor)
    past: Shape = node.shape(place) if node.has(place) else ()
    wanted = node.outputs[output] if node.wants(output) and len(node.out(output)) == 4 else None
    if len(past) != 4 or past[2] == 0:
        return tensor if wanted is None else node.elementwise("identity", (tensor,), wanted)
    whole = (*shape[:2], past[2] + shape[2], shape[3])
    if wanted is not None and node.out(output) != whole:
        wanted = None
    made = wanted or node.tensor("concat", whole)
    both = (node.inputs[place], tensor)
    return node.emit(Concat(name=node.name, type=node.type, inputs=both, outputs=(made,), axis=2))


def _attend(node: Node, q: str, k: str, v: str, mask: int | None) -> None:
    """softmax(q*k^T + mask)*v, keys and values repeated where several query heads share them."""
    (batch, heads, rows, _), keys = node.shape_of(q), node.shape_of(k)[2]
    k, v = (_repeated(node, tensor, heads) for tensor in (k, v))
    scores = node.tensor("scores", (batch, heads, rows, keys))
    name, kind = node.name, node.type
    node.emit(
        Product(
            name=name, type=kind, inputs=(q, k), outputs=(scores,), part="scores", left="bhnd", right="bhkd", out="bhnk"
        )
    )
    scores = node.elementwise("mul", (scores,))
    if mask is not None and node.has(mask):
        scores = node.elementwise("add", (scores, node.inputs[mask]), shape=(batch, heads, rows, keys))
    weights = node.tensor("weights", (batch, heads, rows, keys))
    node.emit(Normalize(name=name, type=kind, inputs=(scores,), outputs=(weights,), axes=(3,), function="softmax"))
    width = node.shape_of(v)[3]
    whole = (batch, heads, rows, width)
    flat = len(node.out()) == 3
    made = node.tensor("values", whole) if flat else node.outputs[0]
    node.emit(
        Product(
            name=name,
            type=kind,
            inputs=(weights, v),
            outputs=(made,),
            part="values",
            left="bhnk",
            right="bhkd",
            out="bhnd",
        )
    )
    if flat:
        node.reshape(node.transpose(made, (0, 2, 1, 3)), node.out(), node.outputs[0])


def _repeated(node: Node, tensor: str, heads: int) -> str:
    """Each head as often as there are query heads that read it."""
    batch, shared, rows, width = node.shape_of(tensor)
    if shared == heads or shared < 1 or heads % shared:
        return tensor
    apart = node.reshape(tensor, (batch, shared, 1, rows, width))
    made = node.tensor("expand", (batch, shared, heads // shared, rows, width))
    node.emit(Expand(name=node.name, type=node.type, inputs=(apart,), outputs=(made,)))
    return node.reshape(made, (batch, heads, rows, width))
