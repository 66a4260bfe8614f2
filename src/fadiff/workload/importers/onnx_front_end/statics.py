"""What is known of each tensor before the network runs: its shape, its type, and its words where they are constants.

Shapes are inferred node by node with ONNX's own rules, and constants computed with its reference implementation, so
that a shape which the graph computes (Shape, Gather, Concat, Reshape) is as good as a written one. Where either fails,
the tensor's shape stays open, with the reason; that matters only if a layer needs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper, shape_inference
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.reference import ReferenceEvaluator

from fadiff.workload.importers.onnx_front_end.nodes import label, reads
from fadiff.workload.importers.onnx_front_end.runtime_shapes import runtime_shapes
from fadiff.workload.importers.operators import ImportFailure, printable
from fadiff.workload.layer import MAX_COUNT

MOST_WORDS = 1 << 16
"""Constants larger than this are weights or tables: their words are never needed, only their shapes."""
MOST_SHAPE_WORDS = 1 << 10
"""Constants up to this size may be shapes, axes or indices, which shape inference wants to see."""
GROWING = frozenset(
    {"ConstantOfShape", "Expand", "OneHot", "Range", "Tile", "Pad", "Resize", "RandomNormal", "EyeLike"}
)
"""Operators that make much out of little: computed only if the size of the result is known to be small."""
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
LEARNED = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E5M2,
    }
)
"""Types that parameters have; others are shapes, indices and masks."""


@dataclass(frozen=True)
class Known:
    """What is known of a tensor. `why` says why its shape is not, where it is None.

    `fixed`: nothing that is given at run time goes into it. `learned` names the parameters that went into it.
    """

    shape: tuple[int, ...] | None
    elem_type: int = TensorProto.FLOAT
    fixed: bool = False
    learned: frozenset[str] = frozenset()
    words: NDArray[Any] | None = None
    why: str = ""


class Statics:
    """Everything known of the tensors of a graph, by name."""

    def __init__(self, opsets: Mapping[str, int], folder: Path, declared: Mapping[str, tuple[int, ...]]) -> None:
        self.opsets, self._folder, self._declared = dict(opsets), folder, declared
        self._imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        self._known: dict[str, Known] = {}
        self._stored: dict[str, TensorProto] = {}
        self._schemas: dict[tuple[str, str], OpSchema | None] = {}
        self._misfits: dict[str, str] = {}
        """Nodes whose inputs do not fit together, by name, and what ONNX says of them."""

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Known:
        return self._known[name]

    def set(self, name: str, known: Known) -> None:
        """Say what is known of a tensor."""
        self._known[name] = known

    def add_stored(self, name: str, tensor: TensorProto) -> None:
        """A tensor that the file holds; its words are read when they are needed."""
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape) or prod(shape) > MAX_COUNT:
            raise ImportFailure(f"constant {name!r} has the shape {list(shape)}: the file is damaged, export it again")
        learned = frozenset({name}) if tensor.data_type in LEARNED and prod(shape) > 1 else frozenset[str]()
        self._known[name] = Known(shape, tensor.data_type, fixed=True, learned=learned)
        self._stored[name] = tensor

    def words(self, name: str) -> NDArray[Any] | None:
        """The words of a small constant; None where they are not known, or too many."""
        known = self._known.get(name)
        if known is None or not known.fixed or known.shape is None or prod(known.shape) > MOST_WORDS:
            return None
        if known.words is None and name in self._stored:
            words = self._read(name, self._stored.pop(name))
            self._known[name] = known = replace(known, words=words)
        return known.words

    def _read(self, name: str, tensor: TensorProto) -> NDArray[Any] | None:
        try:
            words = numpy_helper.to_array(tensor, str(self._folder))
        except Exception:  # weights that lie elsewhere and are not there, or too few bytes: only shapes are left
            return None
        return words if words.shape == self._known[name].shape else None

    def lies_elsewhere(self, name: str) -> bool:
        """Whether a constant's words are in another file, which could not be read."""
        known = self._known.get(name)
        return known is not None and known.fixed and self.words(name) is None

    def infer(self, node: onnx.NodeProto) -> None:
        """Find out about a node's outputs. Whatever goes wrong leaves them open."""
        inputs = [name for name in node.input if name]
        fixed = all(self._known[name].fixed for name in inputs) and node.op_type not in RANDOM
        kinds = self._inferred(node)
        words = self._computed(node, kinds) if fixed else None
        learned = frozenset[str]().union(*(self._known[name].learned for name in inputs)) if fixed else frozenset[str]()
        for i, name in enumerate(node.output):
            if not name:
                continue
            shape, elem_type = kinds.get(name, (None, TensorProto.FLOAT))
            if words is not None and i < len(words):
                array = words[i]
                elem_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                self._known[name] = Known(array.shape, elem_type, fixed=True, learned=learned, words=array)
                continue
            shape = self._declared.get(name) if shape is None else shape
            why = "" if shape is not None else self._why(node, inputs)
            self._known[name] = Known(shape, elem_type, fixed, learned, why=why)

    def _why(self, node: onnx.NodeProto, inputs: Sequence[str]) -> str:
        """Why the shape of a node's outputs is open: what was open before, or this node."""
        for name in inputs:
            if self._known[name].why:
                return self._known[name].why
        told = f"{node.op_type} {label(node)!r}"
        elsewhere = [
            name for name in inputs if self.lies_elsewhere(name) and self._known[name].elem_type not in LEARNED
        ]
        if elsewhere:
            return (
                f"{told} needs the words of {elsewhere[0]!r}, which are not in the file: put its weights file beside it"
            )
        if label(node) in self._misfits:
            return f"{told} is given what does not fit ({self._misfits[label(node)]})"
        if self.schema(node) is None:
            return f"{told} is an operator nobody here knows, and the file does not say what shape it makes"
        return f"{told} decides it while the network runs"

    def schema(self, node: onnx.NodeProto) -> OpSchema | None:
        """The definition of a node's operator; None where ONNX has none."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        key = (domain, node.op_type)
        if key not in self._schemas:
            try:
                self._schemas[key] = get_schema(node.op_type, self.opsets.get(domain, 1), domain)
            except (SchemaError, RuntimeError):
                self._schemas[key] = None
        return self._schemas[key]

    def _inferred(self, node: onnx.NodeProto) -> dict[str, tuple[tuple[int, ...] | None, int]]:
        """Shapes and types of a node's outputs by ONNX's own rules."""
        schema = self.schema(node)
        if schema is None:
            shapes = runtime_shapes(node, [self._known[name].shape if name else None for name in node.input])
            kind = self._known[node.input[0]].elem_type if node.input and node.input[0] else TensorProto.FLOAT
            return {name: (shape, kind) for name, shape in zip(node.output, shapes, strict=False)}
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, TensorProto] = {}
        for name in filter(self._known.__contains__, reads(node)):
            known = self._known[name]
            types[name] = onnx.helper.make_tensor_type_proto(known.elem_type, known.shape)
            words = self.words(name)
            if words is not None and words.size <= MOST_SHAPE_WORDS:
                data[name] = numpy_helper.from_array(words)
        try:
            made = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._imports)
        except Exception as error:  # whatever the rules trip over in a damaged or unusual node
            told = next(iter(str(error).splitlines()), "").rpartition("): ")[2]
            self._misfits[label(node)] = printable(told) or type(error).__name__
            return {}
        return {name: _kind(kind) for name, kind in made.items()}

    def _computed(
        self, node: onnx.NodeProto, kinds: Mapping[str, tuple[tuple[int, ...] | None, int]]
    ) -> list[NDArray[Any]] | None:
        """A node's outputs as constants, if they are small."""
        known = [kinds.get(name, (None, 0))[0] for name in node.output if name]
        if any(shape is not None and prod(shape) > MOST_WORDS for shape in known):
            return None
        if node.op_type in GROWING and None in known:
            return None
        feeds = {name: self.words(name) for name in node.input if name}
        if any(words is None for words in feeds.values()):
            return None
        try:
            with np.errstate(all="ignore"):
                made = ReferenceEvaluator(node, opsets=self.opsets).run(None, feeds)
        except Exception:  # an operator the reference lacks, or words it cannot take
            return None
        arrays = [np.asarray(array) for array in made if not isinstance(array, list | dict)]
        whole = len(arrays) == len(made) and all(array.dtype != np.dtype(object) for array in arrays)
        return arrays if whole else None


def _kind(kind: onnx.TypeProto) -> tuple[tuple[int, ...] | None, int]:
    """Shape and element type; no shape where a size is open."""
    tensor = kind.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None, tensor.elem_type or TensorProto.FLOAT
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    return (shape if all(size >= 0 for size in shape) else None), tensor.elem_type or TensorProto.FLOAT
