"""Vector operators: which layer's epilogue takes them, and which need a layer of their own.

A vector operator costs nothing in the model, so what matters is which tensors are stored. The rules:

- **One stored tensor** (relu, a norm, x * sigmoid(x), rotary embeddings): folded into the layer that stores it. Where
  somebody else reads the tensor without the operator, as the residual path around a norm does, one of the two applies
  it as it reads. Traffic is the same, and vector operators are free.
- **Several stored tensors** (residual sums, elementwise products): an add layer, which reads them all. An operand of
  the layer's own shape and layout arrives over an edge that can fuse. One that is sliced or laid out otherwise does
  not: it is read from DRAM.
- **A stored tensor and a small one** that is broadcast over it (the gate of squeeze-and-excite, which comes from all of
  the tensor): no layer. Whoever reads the result reads the tensor from DRAM, applies the gate to each word, and waits
  for the layer that makes it. The few words of the gate itself are not counted; an add layer would count as many as the
  tensor has.
- **Small ones alone** (the scale of a dynamic quantization times those of the weights): no layer either. Where such
  words are there before a layer runs, they are a part of its epilogue.
- **Network inputs alone**: done before the network runs. An operand that comes from network inputs alone, such as a
  mask, is no stored tensor of the network: if it is broadcast it takes no layer, if it has the full size it does.
- Statistics over an image or a batch (group norms) are known only when the tensor is complete, so nobody can read it on
  chip while it is made: its edges do not fuse.
"""

from dataclasses import replace
from math import prod

from fadiff.workload.importers.lowering.drafts import Net, Vector
from fadiff.workload.importers.lowering.looking import directions, on_the_fly, only_layer, resizes_of, unit_axes_changed
from fadiff.workload.importers.lowering.naming import AFFINE, SILENT, compound, continues, kept_together, named
from fadiff.workload.importers.lowering.sums import add_layer
from fadiff.workload.importers.lowering.values import EVERYWHERE, Part, Value, merged
from fadiff.workload.importers.operators import Elementwise, Normalize, Operator

WHOLE_IMAGE = frozenset("npq")
BROADCAST = 8
"""An operand whose words are used so often at least is small beside the other: it is applied on the fly."""


def elementwise(net: Net, number: int, operator: Elementwise) -> None:
    """Fold into an epilogue, or make an add layer."""
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    values = net.operands(operator)
    made = [value for value in values if value.sources]
    if not made:
        net.values[name] = Value(shape, (Part(None),))
        net.folded[number] = "network input"
        return
    full = [value for value in made if value.shape == shape and value.view is not None]
    beside = [value for value in values if not value.sources and prod(value.shape) == prod(shape)]
    if len(made) == 1 and not beside and prod(made[0].shape) == prod(shape):
        net.values[name] = _on_one(net, number, operator, unit_axes_changed(made[0], shape))
        return
    if not beside and all(_is_small(net, value, shape) for value in made):
        net.values[name] = _on_small(net, number, operator, made)
        return
    if full and not beside:
        base = full[0]
        rest = [value for value in made if value is not base]
        if all(_is_expression(net, value, base) for value in rest):
            net.values[name] = _on_several(net, number, operator, base, rest)
            return
    lead = next((value for value in made if value.shape == shape), None)
    if lead is not None and not beside:
        rest = [value for value in made if value is not lead]
        if lead.origin is not None and not lead.parts and all(lead.origin in value.within for value in rest):
            net.folded[number] = on_the_fly(net, lead)
            net.values[name] = lead
            return
        if all(prod(value.shape) * BROADCAST <= prod(shape) for value in rest):
            net.values[name] = _broadcast(net, number, operator, lead, rest)
            return
    net.values[name] = add_layer(net, number, operator, values)


def _is_small(net: Net, value: Value, shape: tuple[int, ...]) -> bool:
    """Whether a value has few words beside a shape that it is broadcast to, or beside the tensors it is made of."""
    if value.words * BROADCAST <= prod(shape):
        return True
    made_of = sum(prod(net.drafts[layer].sizes(resizes).values()) for layer, resizes in value.sources)
    return value.view is None and value.words * BROADCAST <= made_of


def _on_small(net: Net, number: int, operator: Elementwise, made: list[Value]) -> Value:
    """A function of a few words, which whoever reads it computes."""
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    if len(made) == 1:
        spread = made[0].scattered(name, shape, f"{operator.type} {operator.name} repeats its words")
        return _on_one(net, number, operator, spread)
    value = merged(name, made, shape, f"{operator.type} {operator.name} is made of a few words of several tensors")
    net.folded[number] = on_the_fly(net, value)
    return replace(value, spread=sum(value.words for value in made))


def _broadcast(net: Net, number: int, operator: Elementwise, lead: Value, rest: list[Value]) -> Value:
    """A tensor combined with much smaller ones as it is read; who reads it waits for them all."""
    name = operator.outputs[0]
    told = ", ".join(net.label(layer) for value in rest for layer in sorted(value.layers))
    net.folded[number] = on_the_fly(net, lead)
    made = merged(name, [lead, *rest], lead.shape, f"{operator.type} {operator.name} waits for {told} as well")
    return replace(made, hint=lead.like)


def _is_expression(net: Net, value: Value, base: Value) -> bool:
    """Whether a value is computed from the base's stored tensor, so that both are one expression of it.

    A few words count as well if they were there before: the scale of a dynamic quantization.
    """
    (layer,) = base.layers
    known = net.drafts[layer].needs | 1 << layer
    if value.layers == base.layers:
        return prod(value.shape) < prod(base.shape) or value.view is None or value.view.axes == base.parts[0].axes
    few = value.words == 1 or value.words * BROADCAST <= prod(base.shape)
    return few and all(known >> other & 1 for other in value.layers)


def _on_one(net: Net, number: int, operator: Operator, value: Value) -> Value:
    """A function of one stored tensor, word by word."""
    function = operator.function if isinstance(operator, Elementwise) else "scale"
    if function in SILENT:
        net.folded[number] = "nothing: it changes no word"
        return value
    layer = only_layer(value)
    if layer is None:
        net.folded[number] = on_the_fly(net, value)
        return value
    vectors = net.drafts[layer].vectors
    last = value.history[-1] if value.history else None
    absorbed = last is not None and vectors[last].compound and function in AFFINE
    view = value.view
    vectors[number] = Vector(
        name=None if absorbed or view is None else named(function),
        functions=frozenset({function}),
        resizes=resizes_of(value),
        compound=absorbed,
        within=last if absorbed else None,
    )
    if absorbed and last is not None:
        vectors[number] = vectors[number]._replace(functions=vectors[last].functions | {function})
    return replace(value, history=(*value.history, number))


def _on_several(net: Net, number: int, operator: Elementwise, base: Value, rest: list[Value]) -> Value:
    """A function of one stored tensor in which it appears several times, or with words computed from all of it."""
    (layer,) = base.layers
    vectors = net.drafts[layer].vectors
    mine = [value for value in rest if value.layers == base.layers]
    histories = [base.history, *(value.history for value in mine)]
    common = 0
    while all(len(h) > common for h in histories) and len({h[common] for h in histories}) == 1:
        common += 1
    within = {step for history in histories for step in history[common:]}
    pooled = any(resizes_of(value) != resizes_of(base) for value in mine)
    functions = frozenset[str]().union(*(vectors[step].functions for step in within), {operator.function})
    functions |= {"reduce"} if pooled else frozenset()
    while common and continues(functions, vectors[base.history[common - 1]].functions):
        common -= 1
        within.add(base.history[common])
        functions |= vectors[base.history[common]].functions
    name = compound(functions) if mine else named(operator.function)
    for step in within:
        vectors[step] = vectors[step]._replace(name=None, within=number)
    vectors[number] = Vector(name, functions, resizes_of(base), compound=bool(mine))
    moved = frozenset[str]().union(*(value.moved for value in mine)) - kept_together(name)
    if pooled:
        moved |= WHOLE_IMAGE
    reason = base.reason
    if reason is None and not moved.isdisjoint(WHOLE_IMAGE):
        reason = f"{operator.type} {operator.name} needs all of {net.label(layer)} before its first word"
    return replace(base, history=(*base.history[:common], number), moved=base.moved | moved, reason=reason)


def normalize(net: Net, number: int, operator: Normalize) -> None:
    """Fold a norm or a softmax; one over more than channels lets nobody read its tensor on chip."""
    name = operator.outputs[0]
    values = net.operands(operator)
    if not values or not values[0].sources:
        net.values[name] = Value(net.graph.shape(name), (Part(None),))
        net.folded[number] = "network input"
        return
    value = values[0]
    layer = only_layer(value)
    if layer is None:
        net.folded[number] = on_the_fly(net, value)
        over = EVERYWHERE if len(value.parts) < 2 or operator.axes != (value.axis,) else frozenset[str]()
    else:
        over = directions(net, value, operator.axes)
        view = value.view
        net.drafts[layer].vectors[number] = Vector(
            name=None if view is None else named(operator.function),
            functions=frozenset({"reduce", operator.function}),
            resizes=resizes_of(value),
            compound=True,
        )
        value = replace(value, history=(*value.history, number))
        over -= kept_together(named(operator.function))
    reason = value.reason
    if reason is None and not over.isdisjoint(WHOLE_IMAGE | {"g"}):
        reason = f"{operator.type} {operator.name} runs over more than the channels of one place"
    net.values[name] = replace(value, moved=value.moved | over, reason=reason)
