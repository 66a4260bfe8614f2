"""One transformer block as a graph: projections, attention, feed-forward network and residual sums.

Rows are tokens: N = batch*seq in the projections, the FFN and the sums. The two attention products run in
G = batch*heads groups of N = seq rows; K^T and V, activations, arrive on their weight ports.

Norms are epilogues of the sums, which is exact for a post-norm block (BERT): the sum is normed, then read by the next
layer and by the next sum. A pre-norm block (GPT-3, LLaMA) norms only what the next layer reads and keeps the sum itself
for the residual path; one stored tensor cannot be both, so the sum's consumers read one tensor here too. Sizes,
MACs and traffic are those of a machine that norms on the fly. RMS norms are written layer_norm, and LLaMA's rotary
embedding, an elementwise product with constants, scale.
"""

from dataclasses import dataclass

from fadiff.workload.graph import Workload
from fadiff.workload.layer import Dims, Input, Layer, Port, VectorOp


@dataclass(frozen=True, slots=True)
class Shape:
    """What sets one transformer apart from another; its width is heads*head_width."""

    heads: int
    head_width: int
    ffn: int
    gated: bool = False
    """A SwiGLU feed-forward network: down(silu(gate(x)) * up(x))."""
    rotary: bool = False
    """Queries and keys are turned by their position."""


class _Block:
    """Layers of a block over `tokens` rows, each repeated `repeat` times."""

    def __init__(self, tokens: int, repeat: int) -> None:
        self._tokens, self._repeat = tokens, repeat
        self.layers: list[Layer] = []

    def linear(self, name: str, source: str | None, c: int, k: int, *epilogue: VectorOp) -> None:
        """Every row of c words becomes one of k."""
        self.mac(name, Dims(N=self._tokens, K=k, C=c), ((source, "input"),), epilogue)

    def mac(
        self, name: str, dims: Dims, inputs: tuple[tuple[str | None, Port], ...], epilogue: tuple[VectorOp, ...]
    ) -> None:
        """Any product of two tensors."""
        operands = tuple(Input(source, port) for source, port in inputs)
        self.layers.append(Layer(name, "mac", dims, operands, epilogue=epilogue, repeat=self._repeat))

    def join(self, name: str, a: str | None, b: str | None, k: int, *epilogue: VectorOp) -> None:
        """An elementwise sum or product over rows of k words."""
        inputs = (Input(a, "addend"), Input(b, "addend"))
        dims = Dims(N=self._tokens, K=k)
        self.layers.append(Layer(name, "add", dims, inputs, epilogue=epilogue, repeat=self._repeat))


def transformer_block(name: str, *, shape: Shape, seq: int, batch: int, repeat: int) -> Workload:
    """The block, repeated `repeat` times, on `batch` sequences of `seq` tokens."""
    width = shape.heads * shape.head_width
    groups = batch * shape.heads
    turned: tuple[VectorOp, ...] = ("scale",) if shape.rotary else ()
    net = _Block(batch * seq, repeat)
    net.linear("q_proj", None, width, width, *turned, "reshape")
    net.linear("k_proj", None, width, width, *turned, "transpose")
    net.linear("v_proj", None, width, width, "reshape")
    scores = Dims(G=groups, N=seq, K=seq, C=shape.head_width)
    net.mac("qk", scores, (("q_proj", "input"), ("k_proj", "weight")), ("scale", "softmax"))
    values = Dims(G=groups, N=seq, K=shape.head_width, C=seq)
    net.mac("av", values, (("qk", "input"), ("v_proj", "weight")), ("reshape",))
    net.linear("out_proj", "av", width, width)
    net.join("add1", "out_proj", None, width, "layer_norm")
    if shape.gated:
        net.linear("gate", "add1", width, shape.ffn, "silu")
        net.linear("up", "add1", width, shape.ffn)
        net.join("product", "gate", "up", shape.ffn)
        net.linear("down", "product", shape.ffn, width)
        net.join("add2", "down", "add1", width, "layer_norm")
    else:
        net.linear("ffn1", "add1", width, shape.ffn, "gelu")
        net.linear("ffn2", "ffn1", shape.ffn, width)
        net.join("add2", "ffn2", "add1", width, "layer_norm")
    return Workload(name, tuple(net.layers))
