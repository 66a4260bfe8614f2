"""Networks from elsewhere: front ends read a model into a neutral graph of operators, which is lowered to layers.

.. code-block:: text

    operators          the graph: tensors of known shapes, operators of a few kinds
    onnx_front_end     ONNX files to operators
    torch_front_end    PyTorch modules to operators
    lowering           operators to layers, and to the edges between them
    report             what became of every operator, and why edges fuse or not

Front ends load large libraries, and are imported when they are first used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fadiff.workload.graph import Workload
from fadiff.workload.importers.operators import ImportFailure
from fadiff.workload.importers.report import ImportedModel, ImportReport
from fadiff.workload.layer import WorkloadError

__all__ = ["ImportFailure", "ImportReport", "ImportedModel", "from_onnx", "import_onnx"]


def from_onnx(
    path: str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    *,
    unfold: bool = False,
) -> Workload:
    """An ONNX file as a workload. :func:`import_onnx` tells how it became one.

    `shapes` gives whole shapes of inputs, `dims` sizes of named dims, `values` numbers for inputs that decide between
    branches; all three may be left away where the file leaves nothing open. Many equal blocks in a row become one that
    repeats; `unfold` keeps them apart.
    """
    return import_onnx(path, shapes, dims, values, unfold=unfold).workload


def import_onnx(
    path: str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    *,
    unfold: bool = False,
) -> ImportedModel:
    """An ONNX file as a workload, with a report on what became of its operators."""
    from fadiff.workload.importers.onnx_front_end import import_onnx as read

    try:
        return read(Path(path), shapes or {}, dims or {}, values or {}, unfold=unfold)
    except WorkloadError as error:
        raise ImportFailure(f"{path}: {error}") from None
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # No file is known to end here; one that nobody thought of shall not end in a traceback.
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ImportFailure(f"{path}: it cannot be understood ({told}): is it a valid model?") from None
