"""All ONNX operators by name, and the walk over the graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
import onnx

from fadiff.workload.importers.onnx_front_end import attention, layouts, macs, vectors
from fadiff.workload.importers.onnx_front_end.iterations import iteration
from fadiff.workload.importers.onnx_front_end.node import Node
from fadiff.workload.importers.onnx_front_end.nodes import (
    all_types,
    bodies,
    label,
    needed,
    ordered,
    origins,
    spliced,
)
from fadiff.workload.importers.onnx_front_end.repeating import Repeater
from fadiff.workload.importers.onnx_front_end.sizes import Shapes, Sizes, input_shapes
from fadiff.workload.importers.onnx_front_end.statics import MOST_WORDS, Known, Statics
from fadiff.workload.importers.operators import ImportFailure, Opaque, Operator, OperatorGraph, Role, Tensor
from fadiff.workload.layer import MAX_COUNT

Translate = Callable[[Node], None]

MULTIPLYING: dict[str, Translate] = {
    "Conv": macs.conv,
    "ConvTranspose": macs.conv,
    "ConvInteger": macs.conv,
    "FusedConv": macs.fused_conv,
    "NhwcFusedConv": macs.deform_conv,
    "QLinearConv": macs.qlinear_conv,
    "DeformConv": macs.deform_conv,
    "MatMul": macs.matmul,
    "MatMulInteger": macs.matmul,
    "FusedMatMul": macs.matmul,
    "TransposeMatMul": macs.matmul,
    "DynamicQuantizeMatMul": macs.dynamic_matmul,
    "MatMulIntegerToFloat": macs.matmul,
    "MatMulNBits": macs.packed_matmul,
    "MatMulBnb4": macs.packed_matmul,
    "QGemm": macs.qgemm,
    "QLinearMatMul": macs.qlinear_matmul,
    "Gemm": macs.gemm,
    "FusedGemm": macs.gemm,
    "Einsum": macs.einsum,
    **dict.fromkeys(macs.GATES, macs.recurrent),
    "MultiHeadAttention": attention.multi_head_attention,
    "GroupQueryAttention": attention.multi_head_attention,
    "QAttention": attention.packed_attention,
    "Attention": attention.attention,
}
"""Operators with MACs: a graph cannot do without their shapes."""

OTHERS: dict[str, Translate] = {
    **dict.fromkeys(vectors.ELEMENTWISE, vectors.elementwise),
    **dict.fromkeys(vectors.REDUCTIONS, vectors.reduce),
    **dict.fromkeys(
        (
            "Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "RMSNormalization", "LpNormalization", "LRN",
            "SimplifiedLayerNormalization", "InstanceNormalization", "GroupNormalization", "CumSum",
            "MeanVarianceNormalization", "QLinearSoftmax", "CumProd", "RotaryEmbedding",
        ),
        vectors.normalize,
    ),
    "SkipLayerNormalization": vectors.skip_norm,
    "SkipSimplifiedLayerNormalization": vectors.skip_norm,
    "DynamicQuantizeLinear": vectors.dynamic_quantize,
    **dict.fromkeys(
        (
            "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool",
            "QLinearAveragePool", "QLinearGlobalAveragePool",
        ),
        vectors.pool,
    ),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), vectors.noise
    ),
    "DFT": vectors.fourier,
    "STFT": vectors.fourier,
    "Resize": vectors.resize,
    "Upsample": vectors.resize,
    "GridSample": vectors.grid_sample,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), layouts.reshape),
    "Transpose": layouts.transpose,
    "Expand": layouts.expand,
    "Tile": layouts.expand,
    "Concat": layouts.concat,
    "QLinearConcat": layouts.quantized_concat,
    "Split": layouts.split,
    "Slice": layouts.slice_,
    "Gather": layouts.gather,
    "Pad": layouts.pad,
    "DepthToSpace": layouts.depth_to_space,
    "SpaceToDepth": layouts.space_to_depth,
    **dict.fromkeys(
        (
            "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND", "TensorScatter", "TopK", "OneHot",
            "ReverseSequence", "Compress", "MaxUnpool", "CenterCropPad", "EmbedLayerNormalization",
        ),
        layouts.pick,
    ),
}  # fmt: skip
"""Operators without MACs."""

DOMAINS = ("", "ai.onnx", "com.microsoft", "ai.onnx.contrib")
"""Where the operators above are defined; elsewhere the same name may mean something else."""
BLOCKED = "com.microsoft.nchwc"
"""Operators on channels in blocks: weights are filled up to whole blocks, so their shapes are not the model's."""
MOST_VERSIONS = 10_000
CHOOSING = frozenset({"If", "Loop", "Scan", "SequenceMap"})


class Walk:
    """The translation of one model."""

    def __init__(
        self, model: onnx.ModelProto, folder: Path, shapes: Shapes, dims: Sizes, values: Mapping[str, float]
    ) -> None:
        graph = model.graph
        self._opsets = _opsets(model)
        self._form = onnx.checker.C.CheckerContext()
        self._form.ir_version, self._form.opset_imports = onnx.IR_VERSION, self._opsets
        self._tensors: dict[str, Tensor] = {}
        self._operators: list[Operator] = []
        self._maker: dict[str, onnx.NodeProto] = {}
        stored = {tensor.name: tensor for tensor in graph.initializer}
        stored |= {tensor.values.name: _dense(tensor) for tensor in graph.sparse_initializer}
        inputs = {info.name: info for info in graph.input if info.name not in stored}
        nodes = ordered(graph.node, {*stored, *inputs})
        self._outputs = [info.name for info in graph.output]
        self._nodes, wanted = needed(nodes, self._outputs)
        if any(node.domain == BLOCKED for node in self._nodes):
            raise ImportFailure(
                "ONNX Runtime laid its channels out in blocks for one kind of CPU: save it with a lower level of "
                "optimization, such as ORT_ENABLE_EXTENDED"
            )
        self._left_out, self._behind = len(nodes) - len(self._nodes), 0
        self._statics = Statics(self._opsets, folder, _declared(graph))
        self._loops = Repeater(self._statics, self._tensors, self._operators, self._register, self._walk)
        for name, tensor in stored.items():
            if name in wanted:
                self._statics.add_stored(name, tensor)
        self._add_inputs({name: info for name, info in inputs.items() if name in wanted}, inputs, shapes, dims, values)

    def _add_inputs(
        self,
        wanted: Mapping[str, onnx.ValueInfoProto],
        there: Mapping[str, onnx.ValueInfoProto],
        shapes: Shapes,
        dims: Sizes,
        values: Mapping[str, float],
    ) -> None:
        for name, value in values.items():
            if name not in there:
                raise ImportFailure(f"the model has no input {name!r}: those it has are {', '.join(there)}")
            kind = there[name].type.tensor_type.elem_type or onnx.TensorProto.FLOAT
            axes = there[name].type.tensor_type.shape.dim
            shape = tuple(dim.dim_value if dim.dim_value > 0 else dims.get(dim.dim_param, 1) for dim in axes)
            if prod(shape) > MOST_WORDS:
                raise ImportFailure(f"input {name!r} has {prod(shape):,} words: --value is for those that decide")
            words = np.full(shape, value).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            self._statics.set(name, Known(shape, kind, fixed=True, words=words))
        free = [info for name, info in wanted.items() if name not in values]
        unused = {name for name in shapes if name in there and name not in wanted}
        given = {name: shape for name, shape in shapes.items() if name not in unused}
        for name, shape in input_shapes(free, given, dims).items():
            if prod(shape) > MAX_COUNT:
                raise ImportFailure(f"input {name!r} has more than 2^53 words: make it smaller")
            kind = there[name].type.tensor_type.elem_type or onnx.TensorProto.FLOAT
            self._statics.set(name, Known(shape, kind))
            self._tensors[name] = Tensor(name, shape, "input")

    def graph(self, name: str) -> OperatorGraph:
        """The whole graph."""
        self._walk(self._nodes)
        operators = _alive(self._operators, self._outputs)
        used = {name for operator in operators for name in (*operator.inputs, *operator.outputs)}
        used.update(*(self._tensors[name].made_of for name in tuple(used) if name))
        made = {name for operator in operators for name in operator.outputs}
        made |= {name for name, tensor in self._tensors.items() if tensor.role != "activation"}
        outputs = tuple(name for name in self._outputs if name in made)
        tensors = {key: tensor for key, tensor in self._tensors.items() if key in used or key in outputs}
        return OperatorGraph(name, tensors, tuple(operators), outputs, tuple(self._notes()))

    def _walk(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Translate nodes, in an order in which they can run."""
        waiting = list(nodes[::-1])
        while waiting:
            node = waiting.pop()
            self._check_inputs(node)
            self._maker |= dict.fromkeys(node.output, node)
            if node.op_type == "If" and (branch := self._chosen(node)) is not None:
                inner, stored = spliced(node, branch)
                for key, tensor in stored.items():
                    self._statics.add_stored(key, tensor)
                waiting += ordered(inner, set(stored))[::-1]
            elif (loop := iteration(node, self._statics)) is None or not self._loops.repeat(loop):
                self._translate(node)

    def _notes(self) -> Iterator[str]:
        yield from self._loops.notes
        for count, what in ((self._left_out, "without an effect on outputs"), (self._behind, "of open shape")):
            if count:
                yield f"left out: {count} {'nodes' if count > 1 else 'node'} {what}"

    def _check_inputs(self, node: onnx.NodeProto) -> None:
        for name in filter(None, node.input):
            if name not in self._statics:
                raise ImportFailure(
                    f"{node.op_type} {label(node)!r} reads {name!r}, which nothing makes: the file is damaged"
                )

    def _check_form(self, node: onnx.NodeProto) -> None:
        """Numbers of inputs and types of attributes are those that ONNX asks for; branches are judged when chosen."""
        if self._statics.schema(node) is None or bodies(node):
            return
        try:
            onnx.checker.check_node(node, self._form)
        except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
            reason = next(iter(str(error).splitlines()), "").strip().rstrip(".")
            raise ImportFailure(
                f"{node.op_type} {label(node)!r} is no valid node ({reason}): export it again"
            ) from None

    def _chosen(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch that a condition which is known chooses."""
        condition = self._statics.words(node.input[0]) if node.input else None
        if condition is None or condition.size != 1:
            return None
        wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
        return next((item.g for item in node.attribute if item.name == wanted), None)

    def _translate(self, proto: onnx.NodeProto) -> None:
        statics = self._statics
        if proto.op_type == "Constant" and _add_constant(statics, proto):
            return
        if proto.op_type in ("Shape", "Size") and self._measured(proto):
            return
        self._check_form(proto)
        statics.infer(proto)
        if all(statics[name].fixed for name in proto.output if name) and proto.op_type not in CHOOSING:
            return
        for name in (*proto.input, *proto.output):
            self._register(name)
        node = Node(proto, statics, self._tensors, self._operators)
        translate = self._translation(proto)
        if bodies(proto):
            self._judge_choice(node, proto)
        elif translate is None:
            node.opaque("nobody here knows this operator", None)
        elif proto.op_type not in MULTIPLYING and not self._shapes_known(proto):
            self._leave_out(node)
        else:
            before = len(self._operators)
            translate(node)
            self._finish_outputs(node, before)

    def _leave_out(self, node: Node) -> None:
        """An operator without products whose tensors have an open shape; one that reads no others is only counted."""
        if any(name in self._tensors for name in node.inputs):
            whys = [known.why for name in (*node.inputs, *node.outputs) if name and (known := self._statics[name]).why]
            node.opaque(f"the shape of its tensors is open: {whys[0]}", 0)
        else:
            self._behind += 1

    def _translation(self, proto: onnx.NodeProto) -> Translate | None:
        if proto.domain not in DOMAINS:
            return None
        if proto.op_type == "Attention" and proto.domain == "com.microsoft":
            return attention.packed_attention
        return MULTIPLYING.get(proto.op_type) or OTHERS.get(proto.op_type)

    def _shapes_known(self, proto: onnx.NodeProto) -> bool:
        return all(self._statics[name].shape is not None for name in (*proto.input, *proto.output) if name)

    def _register(self, name: str) -> None:
        """Make a tensor known to operators, if its shape is."""
        if not name or name in self._tensors:
            return
        known = self._statics[name]
        if known.shape is not None:
            role: Role = "activation" if not known.fixed else "parameter" if name in known.learned else "constant"
            self._tensors[name] = Tensor(name, known.shape, role, tuple(sorted(known.learned - {name})))
            for parameter in known.learned:
                self._register(parameter)

    def _finish_outputs(self, node: Node, first: int) -> None:
        """Outputs that a translation did not make (indices of a pooling, statistics of a norm) are not modelled."""
        made = {name for operator in self._operators[first:] for name in operator.outputs}
        left = [name for name in node.outputs if name and name not in made and name in self._tensors]
        if left:
            inputs = tuple(name for name in node.inputs[:1] if name in self._tensors)
            self._operators.append(
                Opaque(
                    name=node.name,
                    type=node.type,
                    inputs=inputs,
                    outputs=tuple(left),
                    reason="only its first output is modelled",
                    macs=0,
                )
            )

    def _measured(self, proto: onnx.NodeProto) -> bool:
        """Shape and Size are constants as soon as the shape is known, whatever the tensor holds."""
        known = self._statics[proto.input[0]] if proto.input and proto.input[0] else None
        if known is None or known.shape is None or not proto.output:
            return False
        if proto.op_type == "Size":
            words = np.asarray(prod(known.shape), np.int64)
        else:
            ends = {item.name: item.i for item in proto.attribute}
            words = np.asarray(known.shape[ends.get("start", 0) : ends.get("end", len(known.shape))], np.int64)
        self._statics.set(proto.output[0], Known(words.shape, onnx.TensorProto.INT64, fixed=True, words=words))
        return True

    def _judge_choice(self, node: Node, proto: onnx.NodeProto) -> None:
        """A branch or loop that only the run decides: harmless where nothing in it multiplies."""
        inside = {kind for body in bodies(proto) for kind in all_types(body)}
        multiplying = sorted(inside.intersection(MULTIPLYING))
        if multiplying:
            what = "chooses between branches" if proto.op_type == "If" else "repeats its body"
            remedy = self._decider(proto) if proto.op_type == "If" else "export the model with the loop unrolled"
            raise ImportFailure(f"{node} {what} while the network runs, and there is {multiplying[0]} inside: {remedy}")
        node.opaque("it is decided while the network runs", 0)

    def _decider(self, proto: onnx.NodeProto) -> str:
        """What to do about a branch: inputs of one word that decide can be given, what the network computes cannot."""
        found = origins(proto.input[0], self._maker) if proto.input else []
        deciding = [name for name in found if not self._statics[name].fixed]
        shapes = [self._statics[name].shape for name in deciding]
        if not shapes or any(shape is None or prod(shape) != 1 for shape in shapes):
            return "what the network computes decides, so export the branch you mean"
        options = " ".join(f"--value {name}=NUMBER" for name in deciding)
        return f"give the input that decides with {options}, or export the branch you mean"


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Versions of the sets of operators in use."""
    found = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import}
    for domain, version in found.items():
        if not 1 <= version <= MOST_VERSIONS:
            raise ImportFailure(f"version {version} of the operators of {domain or 'ONNX'!r} is none: export it again")
    return {"": 1, **found}


def _dense(tensor: onnx.SparseTensorProto) -> onnx.TensorProto:
    """A sparse constant as a dense one without words."""
    return onnx.TensorProto(name=tensor.values.name, data_type=tensor.values.data_type, dims=tensor.dims)


def _declared(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Shapes that the file states in full, for tensors whose shape cannot be inferred."""
    found: dict[str, tuple[int, ...]] = {}
    for info in (*graph.value_info, *graph.output):
        kind = info.type.tensor_type
        if kind.HasField("shape") and all(dim.dim_value > 0 for dim in kind.shape.dim):
            found[info.name] = tuple(dim.dim_value for dim in kind.shape.dim)
    return found


def _add_constant(statics: Statics, proto: onnx.NodeProto) -> bool:
    """A Constant node with a tensor in it."""
    item = next((item for item in proto.attribute if item.name == "value" and item.type == item.TENSOR), None)
    if item is None or not proto.output or not proto.output[0]:
        return False
    statics.add_stored(proto.output[0], item.t)
    return True


def _alive(operators: list[Operator], outputs: list[str]) -> list[Operator]:
    """Operators that some output needs, or that make none anybody could read."""
    wanted = set(outputs)
    kept: list[Operator] = []
    for operator in reversed(operators):
        if not operator.outputs or wanted.intersection(operator.outputs):
            kept.append(operator)
            wanted.update(operator.inputs)
    return kept[::-1]
