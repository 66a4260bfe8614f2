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
from fadiff.workload.importers.onnx_front_end.plain_forms import keeps_type, plain_form
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
WINDOWS = frozenset({"Conv", "ConvInteger", "QLinearConv", "FusedConv", "AveragePool", "LpPool", "MaxPool"})
"""Operators whose output has no size where their window is larger than the image."""
SHOWN_SHAPES = 3


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
        self._elsewhere: dict[str, str] = {}
        """Constants without words, and the one whose words are in another file, which could not be read."""

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
            self._elsewhere[name] = name
            return None
        return words if words.shape == self._known[name].shape else None

    def infer(self, node: onnx.NodeProto) -> None:
        """Find out about a node's outputs. Whatever goes wrong leaves them open."""
        inputs = [name for name in node.input if name]
        fixed = all(self._known[name].fixed for name in inputs) and node.op_type not in RANDOM
        kinds = self._inferred(node)
        words = self._computed(node, kinds) if fixed else None
        elsewhere = next((self._elsewhere[name] for name in inputs if name in self._elsewhere), None)
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
            if fixed and elsewhere is not None:
                self._elsewhere[name] = elsewhere
            shape = self._declared.get(name) if shape is None else shape
            why = "" if shape is not None else self._why(node, inputs)
            self._known[name] = Known(shape, elem_type, fixed, learned, why=why)

    def _why(self, node: onnx.NodeProto, inputs: Sequence[str]) -> str:
        """Why the shape of a node's outputs is open: what was open before, or this node."""
        for name in inputs:
            if self._known[name].why:
                return self._known[name].why
        told = f"{node.op_type} {label(node)!r}"
        shapes = [shape for name in inputs if (shape := self._known[name].shape) is not None]
        for name in inputs:
            known = self._known[name]
            if not known.fixed or known.elem_type in LEARNED or self.words(name) is not None:
                continue
            if name in self._elsewhere:
                missing = self._elsewhere[name]
                return (
                    f"{told} needs the words of {missing!r}, which are not in the file: put its weights file beside it"
                )
            return f"{told} needs the words of {name!r}, which cannot be computed here: export it with fixed shapes"
        slides = node.op_type in WINDOWS and (self.schema(node) is not None or plain_form(node) is not None)
        if slides and shapes and label(node) not in self._misfits:
            return (
                f"{told} slides a window over {list(shapes[0])}, which is smaller than the window: give larger inputs"
            )
        if label(node) in self._misfits:
            given = " and ".join(str(list(shape)) for shape in shapes[:SHOWN_SHAPES])
            return (
                f"{told} is given {given}, which do not fit together ({self._misfits[label(node)]}): "
                "was the model made for another input shape?"
            )
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
        """Shapes and types of a node's outputs by ONNX's own rules, for the plain form of what it does not know."""
        plain = plain_form(node) if self.schema(node) is None else None
        asked = _complete(node) if plain is None else plain
        schema = self.schema(asked)
        if schema is None:
            shapes = runtime_shapes(node, [self._known[name].shape if name else None for name in node.input])
            kind = self._known[node.input[0]].elem_type if node.input and node.input[0] else TensorProto.FLOAT
            return {name: (shape, kind) for name, shape in zip(node.output, shapes, strict=False)}
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, TensorProto] = {}
        for name in filter(self._known.__contains__, reads(asked)):
            known = self._known[name]
            kind = known.elem_type if plain is None else TensorProto.FLOAT  # a plain form takes plain words
            types[name] = onnx.helper.make_tensor_type_proto(kind, known.shape)
            words = self.words(name)
            if words is not None and words.size <= MOST_SHAPE_WORDS:
                data[name] = numpy_helper.from_array(words)
        try:
            made = shape_inference.infer_node_outputs(schema, asked, types, data, opset_imports=self._imports)
        except Exception as error:  # whatever the rules trip over in a damaged or unusual node
            told = next(iter(str(error).splitlines()), "").rpartition("): ")[2].removeprefix("[ShapeInferenceError] ")
            self._misfits[label(node)] = printable(told) or type(error).__name__
            return {}
        kinds = {name: _kind(kind) for name, kind in made.items()}
        if plain is None or not keeps_type(node):
            return kinds
        return {name: (shape, self._known[plain.input[0]].elem_type) for name, (shape, _) in kinds.items()}

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
                made = ReferenceEvaluator(self._alone(node), opsets=self.opsets).run(None, feeds)
        except Exception:  # an operator the reference lacks, or words it cannot take
            return None
        arrays = [np.asarray(array) for array in made if not isinstance(array, list | dict)]
        whole = len(arrays) == len(made) and all(array.dtype != np.dtype(object) for array in arrays)
        return arrays if whole else None

    def _alone(self, node: onnx.NodeProto) -> onnx.GraphProto:
        """A node as a graph: of a bare node, the reference takes the newest form, whatever the opset of the model."""
        names = dict.fromkeys(name for name in node.input if name)
        inputs = [
            onnx.helper.make_tensor_value_info(name, self._known[name].elem_type, self._known[name].shape)
            for name in names
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        return onnx.helper.make_graph([node], label(node), inputs, outputs)


def _complete(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node with the defaults that ONNX's own rules forget: a short-time transform has one side unless it says two."""
    if node.op_type != "STFT" or any(item.name == "onesided" for item in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.attribute.append(onnx.helper.make_attribute("onesided", 1))
    return copy


def _kind(kind: onnx.TypeProto) -> tuple[tuple[int, ...] | None, int]:
    """Shape and element type; no shape where a size is open."""
    tensor = kind.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None, tensor.elem_type or TensorProto.FLOAT
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    return (shape if all(size >= 0 for size in shape) else None), tensor.elem_type or TensorProto.FLOAT
