"""ONNX models as operator graphs.

.. code-block:: text

    reading      a file as a model
    sizes        the shapes of its inputs, with what the user adds
    statics      shapes, types and small constants of every tensor, node by node
    plain_forms  runtime_shapes            shapes that operators of ONNX Runtime make
    nodes        order of nodes; branches in the place of the node that chose them
    node         one node as its translation sees it
    iterations  repeating                  loops: what a step is, and its operators, which repeat
    macs  vectors  layouts  attention      one short function per operator
    translation  all of them by name, and the walk over the graph

The onnx package is imported with this one, so nothing imports this one before it is needed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fadiff.workload.importers.lowering import lower
from fadiff.workload.importers.onnx_front_end.reading import read_model
from fadiff.workload.importers.onnx_front_end.translation import Walk
from fadiff.workload.importers.operators import OperatorGraph
from fadiff.workload.importers.report import ImportedModel


def read_graph(
    path: Path, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], values: Mapping[str, float]
) -> OperatorGraph:
    """An ONNX file as a graph of operators."""
    model = read_model(path)
    return Walk(model, path.parent, shapes, dims, values).graph(path.stem)


def import_onnx(
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    dims: Mapping[str, int],
    values: Mapping[str, float],
    *,
    unfold: bool = False,
) -> ImportedModel:
    """An ONNX file as a workload, with the account of how it became one."""
    return lower(read_graph(path, shapes, dims, values), unfold=unfold)
