"""One layer as a value: its loops, its operands and the vector operators folded into it.

A layer that exists is a valid one: the constructor raises :class:`WorkloadError` with one sentence.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal, NamedTuple, get_args

from fadiff.errors import FadiffError

Kind = Literal["mac", "add"]
Port = Literal["input", "weight", "addend"]
VectorOp = Literal[
    "bias", "batch_norm", "relu", "gelu", "silu", "sigmoid", "tanh", "clip", "scale", "softmax", "layer_norm",
    "max_pool", "avg_pool", "global_pool", "flatten", "reshape", "transpose", "upsample",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
PORTS: tuple[str, ...] = get_args(Port)
VECTOR_OPS: tuple[str, ...] = get_args(VectorOp)
RESIZING_OPS = frozenset({"max_pool", "avg_pool", "global_pool", "upsample", "reshape"})
"""Vector operators after which the stored rows and columns may differ from the computed ones."""
MAX_SIZE = 2**31 - 1
"""The largest dim, stride or repeat: anything above is a slip, and would overflow arrays of integers."""
MAX_COUNT = 2**53
"""The most MACs of a layer or words of a tensor: up to here a double counts without rounding."""


class WorkloadError(FadiffError):
    """A network that does not make sense, told in one sentence that names the layer."""


class Dims(NamedTuple):
    """Sizes of the eight loops of a layer. An add layer uses N, K, P, Q only.

    Tensors: ``W[G,K,C,R,S]``, ``I[G,N,C,H,V]``, ``O[G,N,K,P,Q]``.
    """

    G: int = 1
    N: int = 1
    K: int = 1
    C: int = 1
    P: int = 1
    Q: int = 1
    R: int = 1
    S: int = 1


DIMS: tuple[str, ...] = Dims._fields
TENSORS = "WIO"
RELEVANT: dict[str, str] = {"W": "GKCRS", "I": "GNCPQRS", "O": "GNKPQ"}
"""The dims each tensor of a MAC layer depends on; rows of I on P and R, its columns on Q and S."""


@dataclass(frozen=True, slots=True)
class Input:
    """One operand of a layer: the tensor of layer `source` (None: a network input) on a port.

    Where it is not `fusible` it goes through DRAM, whatever the schedule: the layer reads a part of it, or reads it in
    another layout, and its shape need not agree with the layer's. `reason` may say why; it makes no other operand.
    """

    source: str | None
    port: Port = "input"
    fusible: bool = True
    reason: str | None = field(default=None, compare=False)

    @property
    def is_foreign(self) -> bool:
        """Whether the layer reads it as it reads a network input: from L3, in the shape of its own port."""
        return self.source is None or not self.fusible


@dataclass(frozen=True)
class Layer:
    """One loop nest and the vector operators folded into it.

    `out` is (P', Q'), the rows and columns stored after the epilogue; None where it keeps P and Q. `pad` is the zero
    padding above and to the left of the input; None where nobody says it.
    """

    name: str
    kind: Kind
    dims: Dims
    inputs: tuple[Input, ...]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    epilogue: tuple[VectorOp, ...] = ()
    out: tuple[int, int] | None = None
    repeat: int = 1
    pad: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        problem = next(_layer_problems(self), None)
        if problem is not None:
            raise WorkloadError(f"layer {self.name!r}: {problem}")

    @property
    def is_mac(self) -> bool:
        """Whether the layer multiplies; add layers only sum."""
        return self.kind == "mac"

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of the eight dims (0 for an add layer)."""
        return prod(self.dims) if self.is_mac else 0

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last tap of the kernel, (R-1)*dilation and (S-1)*dilation."""
        return (self.dims.R - 1) * self.dilation[0], (self.dims.S - 1) * self.dilation[1]

    @property
    def input_rows(self) -> int:
        """H = (P-1)*stride + (R-1)*dilation + 1; padding counts as data."""
        return (self.dims.P - 1) * self.stride[0] + self.reach[0] + 1

    @property
    def input_cols(self) -> int:
        """V = (Q-1)*stride + (S-1)*dilation + 1."""
        return (self.dims.Q - 1) * self.stride[1] + self.reach[1] + 1

    def pad_before(self, axis: int, stored: int) -> int:
        """Zero padding above (axis 0) or to the left (axis 1) of an input of which `stored` rows or columns arrive.

        Where the layer does not say it: half of the kernel's reach, but no more than what it reads beyond the stored
        rows, pad = min(floor((R-1)*dilation/2), max(0, H - P')).
        """
        if self.pad is not None:
            return self.pad[axis]
        return min(self.reach[axis] // 2, max(0, (self.input_rows, self.input_cols)[axis] - stored))

    @property
    def stored(self) -> tuple[int, int]:
        """(P', Q'): rows and columns of the tensor after the epilogue."""
        return self.out if self.out is not None else (self.dims.P, self.dims.Q)

    @property
    def channels(self) -> int:
        """Output channels of all groups, G*K."""
        return self.dims.G * self.dims.K

    @property
    def weight_words(self) -> int:
        """|W| (0 for an add layer)."""
        d = self.dims
        return d.G * d.K * d.C * d.R * d.S if self.is_mac else 0

    @property
    def input_words(self) -> int:
        """|I|, padding included (0 for an add layer, whose operands each have the size of its output)."""
        d = self.dims
        return d.G * d.N * d.C * self.input_rows * self.input_cols if self.is_mac else 0

    @property
    def output_words(self) -> int:
        """|O|, before the epilogue."""
        d = self.dims
        return d.G * d.N * d.K * d.P * d.Q

    @property
    def stored_words(self) -> int:
        """|O'|, after the epilogue: what is written to L3 or copied to L2."""
        d = self.dims
        return d.G * d.N * d.K * prod(self.stored)

    @property
    def has_weight_port(self) -> bool:
        """Whether W is an activation that arrives over an edge."""
        return any(i.port == "weight" for i in self.inputs)


def _layer_problems(layer: Layer) -> Iterator[str]:
    """What is wrong with a layer taken by itself."""
    if not layer.name or not layer.name.isprintable():
        yield "give every layer a name of printable characters"
    if layer.kind not in KINDS:
        yield f"kind {layer.kind!r} is unknown: use one of {', '.join(KINDS)}"
    yield from _size_problems(layer)
    yield from _padding_problems(layer)
    yield from _epilogue_problems(layer)
    yield from _port_problems(layer)


def _size_problems(layer: Layer) -> Iterator[str]:
    """Sizes that are too small or too large to mean anything."""
    sizes = [(f"dimension {dim}", size) for dim, size in zip(DIMS, layer.dims, strict=True)]
    for what, pair in (("stride", layer.stride), ("dilation", layer.dilation), ("out", layer.stored)):
        sizes += [(f"{what} of rows", pair[0]), (f"{what} of columns", pair[1])]
    for what, size in (*sizes, ("repeat", layer.repeat)):
        if size < 1:
            yield f"{what} is {size}: it is at least 1"
        if size > MAX_SIZE:
            yield f"{what} is too large: it is at most {MAX_SIZE}"
    if max(prod(layer.dims), layer.input_words, layer.stored_words) > MAX_COUNT:
        yield f"it has more than 2^53 MACs, or words in one tensor ({layer.macs:.3g} MACs): make it smaller"


def _padding_problems(layer: Layer) -> Iterator[str]:
    """Padding of a layer that has none, or so much that an output would see nothing else."""
    if layer.pad is None:
        return
    if not layer.is_mac:
        yield "an add layer has no padding: leave pad away"
    for what, pad, reach in zip(("rows", "columns"), layer.pad, layer.reach, strict=True):
        if pad < 0:
            yield f"pad of {what} is {pad}: it is at least 0"
        if pad > reach:
            yield f"pad of {what} is more than its kernel reaches, (R-1)*dilation = {reach}: give no more than that"


def _epilogue_problems(layer: Layer) -> Iterator[str]:
    """Operators that are unknown, or that do not explain the stored shape."""
    for operator in layer.epilogue:
        if operator not in VECTOR_OPS:
            yield f"epilogue {operator!r} is unknown: use one of {', '.join(VECTOR_OPS)}"
    computed, stored = (layer.dims.P, layer.dims.Q), layer.stored
    resizing = set(RESIZING_OPS.intersection(layer.epilogue))
    if stored != computed and not resizing:
        yield (
            f"out is {list(stored)} but no operator of its epilogue changes "
            f"{layer.dims.P}x{layer.dims.Q}: leave out away, or add the pooling or upsampling"
        )
    if resizing == {"reshape"} and prod(stored) != prod(computed):
        yield f"reshape keeps the number of words: out {list(stored)} has not the size of {computed[0]}x{computed[1]}"
    if "global_pool" in resizing and stored != (1, 1):
        yield f"global_pool leaves one row and column: say out P=1, Q=1 (it is {list(stored)})"


def _port_problems(layer: Layer) -> Iterator[str]:
    """Operands on ports that the layer's kind does not have, and loops that an add layer does not run."""
    ports = [operand.port for operand in layer.inputs]
    for port in ports:
        if port not in PORTS:
            yield f"port {port!r} is unknown: use one of {', '.join(PORTS)}"
    if any(operand.source is None and not operand.fusible for operand in layer.inputs):
        yield "a network input is never fused: leave fusible away"
    for operand in layer.inputs:
        if operand.reason is not None and operand.fusible:
            yield f"a reason says why an operand cannot be fused: say fusible: false too ({operand.reason!r})"
        if operand.reason is not None and not (operand.reason and operand.reason.isprintable()):
            yield f"the reason {operand.reason!r} is no line of printable characters: correct it, or leave it away"
    if layer.kind == "mac":
        if "input" not in ports:
            yield "a mac layer needs an operand on its input port"
        if ports.count("weight") > 1:
            yield f"{ports.count('weight')} operands are on the weight port: at most one may be"
        if "addend" in ports:
            yield "a mac layer has no addend port: use input or weight, or make it an add layer"
    else:
        if set(ports) != {"addend"} or len(ports) < 2:
            yield "an add layer needs two or more operands, all on the addend port"
        used = {"N", "K", "P", "Q"}
        for dim, size in zip(DIMS, layer.dims, strict=True):
            if size != 1 and dim not in used:
                yield f"an add layer has no dimension {dim} (it is {size}): it runs over N, K, P, Q"
        if layer.stride != (1, 1) or layer.dilation != (1, 1):
            yield "an add layer has no stride or dilation"
