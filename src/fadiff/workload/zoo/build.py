"""A small builder for image networks: it knows the shape of every tensor, so a model states only what it chooses.

Images are square and padding is "same": a layer of stride s turns n rows into ceil(n / s), whatever its kernel.
"""

from dataclasses import dataclass

from fadiff.workload.graph import Workload
from fadiff.workload.layer import Dims, Input, Layer, VectorOp

RELU: tuple[VectorOp, ...] = ("relu",)


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a layer reads: who made it (None: a network input), its channels, and its rows, which are its columns."""

    source: str | None
    channels: int
    side: int


def strided(side: int, stride: int) -> int:
    """Rows left by a stride with "same" padding: the quotient, rounded up."""
    return -(-side // stride)


class ImageBuilder:
    """A network under construction: every method appends one layer and returns the tensor it stores.

    `epilogue` names the operators folded into the layer; `side` the rows they leave, where they pool.
    """

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._layers: list[Layer] = []

    def conv(
        self,
        name: str,
        x: Tensor,
        channels: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        epilogue: tuple[VectorOp, ...] = (),
        side: int | None = None,
    ) -> Tensor:
        """A convolution over all input channels; with kernel 1 on one row and column, a linear layer."""
        rows = strided(x.side, stride)
        dims = Dims(N=self._batch, K=channels, C=x.channels, P=rows, Q=rows, R=kernel, S=kernel)
        out = None if side is None else (side, side)
        return self._append(Layer(name, "mac", dims, (Input(x.source),), (stride, stride), epilogue=epilogue, out=out))

    def depthwise(self, name: str, x: Tensor, *, stride: int = 1, epilogue: tuple[VectorOp, ...] = ()) -> Tensor:
        """A 3x3 convolution of each channel with its own kernel: one group a channel."""
        rows = strided(x.side, stride)
        dims = Dims(G=x.channels, N=self._batch, P=rows, Q=rows, R=3, S=3)
        return self._append(Layer(name, "mac", dims, (Input(x.source),), (stride, stride), epilogue=epilogue))

    def add(
        self, name: str, a: Tensor, b: Tensor, *, epilogue: tuple[VectorOp, ...] = (), side: int | None = None
    ) -> Tensor:
        """The sum of two tensors of one shape."""
        dims = Dims(N=self._batch, K=a.channels, P=a.side, Q=a.side)
        inputs = (Input(a.source, "addend"), Input(b.source, "addend"))
        out = None if side is None else (side, side)
        return self._append(Layer(name, "add", dims, inputs, epilogue=epilogue, out=out))

    def finish(self, name: str) -> Workload:
        """The network as a value."""
        return Workload(name, tuple(self._layers))

    def _append(self, layer: Layer) -> Tensor:
        self._layers.append(layer)
        side = layer.stored[0]
        if "flatten" in layer.epilogue:
            return Tensor(layer.name, layer.channels * side * side, 1)
        return Tensor(layer.name, layer.channels, side)
