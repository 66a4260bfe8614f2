"""From operators to layers.

.. code-block:: text

    layout  values        what a tensor is, in terms of tensors that layers store
    drafts  looking       layers under construction, and questions about values
    convolutions  products  recurrent      operators with MACs: one layer or a few
    folding  naming  pooling  sums         vector operators: epilogues, and add layers
    moves                 reshapes, slices, concatenations: views, edges, or tensors in DRAM
    edges                 which edges can fuse; the finished layers
    account               the report
"""

from collections.abc import Callable
from typing import Any

from fadiff.workload.graph import Workload
from fadiff.workload.importers.blocks import fold_blocks
from fadiff.workload.importers.loops import rolled
from fadiff.workload.importers.lowering.account import account, gap
from fadiff.workload.importers.lowering.convolutions import convolution
from fadiff.workload.importers.lowering.drafts import Net
from fadiff.workload.importers.lowering.edges import Edges
from fadiff.workload.importers.lowering.folding import elementwise, normalize
from fadiff.workload.importers.lowering.moves import (
    carry,
    concat,
    expand,
    lookup,
    opaque,
    pad,
    reshape,
    slice_,
    transpose,
)
from fadiff.workload.importers.lowering.pooling import pool, reduce, resize
from fadiff.workload.importers.lowering.products import product
from fadiff.workload.importers.lowering.recurrent import recurrent
from fadiff.workload.importers.operators import (
    Carry,
    Concat,
    Convolution,
    Elementwise,
    Expand,
    ImportFailure,
    Lookup,
    Normalize,
    Opaque,
    Operator,
    OperatorGraph,
    Pad,
    Pool,
    Product,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    Slice,
    Transpose,
    printable,
)
from fadiff.workload.importers.report import ImportedModel

_LOWERED_BY: dict[type[Operator], Callable[[Net, int, Any], None]] = {
    Convolution: convolution,
    Product: product,
    Recurrent: recurrent,
    Elementwise: elementwise,
    Normalize: normalize,
    Reduce: reduce,
    Pool: pool,
    Resize: resize,
    Reshape: reshape,
    Transpose: transpose,
    Expand: expand,
    Concat: concat,
    Slice: slice_,
    Pad: pad,
    Lookup: lookup,
    Carry: carry,
    Opaque: opaque,
}


def lower(graph: OperatorGraph, *, unfold: bool = False) -> ImportedModel:
    """The layers of a graph of operators, and the account of what became of each.

    Many equal blocks in a row are folded into one that repeats, unless they are to stay `unfold`ed.
    """
    graph = rolled(graph)
    net = Net(graph)
    for number, operator in enumerate(graph.operators):
        if all(name in net.fixed for name in operator.inputs if name):
            net.fixed.update(operator.outputs)
            net.folded[number] = "a constant"
            continue
        if isinstance(operator, Convolution | Product | Recurrent):
            _check_words(graph, operator)
        if isinstance(operator, Opaque):
            net.not_modelled[number] = gap(net, operator)
        _LOWERED_BY[type(operator)](net, number, operator)
    for name in graph.outputs:
        if name in net.values:
            for layer, resizes in net.values[name].sources:
                net.drafts[layer].is_output.append(resizes)
    if not any(draft.kind == "mac" for draft in net.drafts):
        raise ImportFailure("it has no convolution and no matrix product: there is nothing to schedule")
    edges = Edges(net)
    notes = tuple(map(printable, (*graph.notes, *edges.notes)))
    missing = tuple(net.not_modelled.values())
    workload = Workload(printable(graph.name) or "network", tuple(edges.layers()), missing, notes)
    imported = ImportedModel(workload, account(net, edges, workload))
    return imported if unfold else fold_blocks(imported)


def _check_words(graph: OperatorGraph, operator: Operator) -> None:
    """A layer without a single word to read or to make is no layer."""
    for name in filter(None, (*operator.inputs[:2], *operator.outputs[:1])):
        if 0 in graph.shape(name):
            told = f"{operator.type} {operator.name!r} has nothing to multiply: {name!r} is {list(graph.shape(name))}"
            raise ImportFailure(f"{told}, which is empty: give larger inputs")
