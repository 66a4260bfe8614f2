"""A network as its framework sees it, in neutral terms: tensors of known shapes, and operators of a few kinds.

Front ends (ONNX, PyTorch) translate their operators into these; :mod:`fadiff.workload.importers.lowering` turns the
graph into layers. Nothing here knows a framework. An operator says what it does to its tensors and no more:

.. code-block:: text

    MACs        Convolution  Product  Recurrent
    vectors     Elementwise  Normalize  Reduce  Pool  Resize
    layouts     Reshape  Transpose  Expand  Concat  Slice  Pad
    the rest    Lookup (rows of a table)  Carry (between steps of a loop)  Opaque (reported as not modelled)

Tensors are named by strings. The first of an operator's inputs is the one it transforms, unless its class says
otherwise; axes count from 0 and are never negative.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from fadiff.workload.layer import WorkloadError

Role = Literal["input", "activation", "parameter", "constant"]
"""`input`: given to the network at run time. `activation`: made by an operator. `parameter`: stored with the model and
counted as such. `constant`: known before the network runs, and no parameter (a mask, a table of positions)."""


def printable(text: str) -> str:
    """Text on one line: what does not print, such as a line break in the name of a damaged file, becomes a ?."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


class ImportFailure(WorkloadError):  # noqa: N818  (ImportError is Python's own)
    """A model that cannot become a workload, told in one sentence."""

    def __init__(self, told: str) -> None:
        super().__init__(printable(told))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor whose shape is known. Sizes may be 0: such a tensor is empty, and harmless unless a layer needs it.

    `made_of` names the parameters that a constant was computed from before the network runs.
    """

    name: str
    shape: tuple[int, ...]
    role: Role = "activation"
    made_of: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """Elements, one word each."""
        return prod(self.shape)

    @property
    def is_fixed(self) -> bool:
        """Whether it is known before the network runs: no edge brings it."""
        return self.role in ("parameter", "constant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What all operators have. `type` is what the framework calls it, such as Conv or aten.linear.

    Several operators of one name are one operator of the framework; `part` tells apart those that become layers. One in
    a loop stands for `repeat` steps; `again`: an earlier step read the same weights.
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    part: str = ""
    repeat: int = 1
    again: bool = False

    @property
    def label(self) -> str:
        """What a layer made of it is called."""
        return f"{self.name}.{self.part}" if self.part else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(Operator):
    """inputs: x ``[N, C, *image]``, weight, and perhaps a bias ``[K]``; output ``[N, K, *image]``.

    The weight is ``[K, C/groups, *kernel]``, if `transposed` ``[C, K/groups, *kernel]``. Images have one to three axes;
    `stride`, `dilation` and `padding` (before, after) have an entry for each.
    """

    groups: int = 1
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Operator):
    """inputs: left, right, and perhaps a bias. One letter an axis, as in ``einsum``: ``left,right->out``.

    A letter of both inputs and not of the output is summed over. An input may have size 1 where the other is larger
    (it is repeated). A linear layer is ``nc,kc->nk``; scores of attention are ``bhnd,bhkd->bhnk``.
    """

    left: str
    right: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent(Operator):
    """inputs: x ``[time, batch, features]`` (`batch_first`: ``[batch, time, features]``) and all weights, biases,
    states.

    outputs: all hidden states, the last hidden state, the last cell state; those that are not wanted are left away at
    the end, or named "". `gates` is 4 for an LSTM, 3 for a GRU, 1 for a plain RNN.
    """

    hidden: int
    gates: int
    directions: int = 1
    batch_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Operator):
    """One output, each word of it a function of the inputs' words in its place; inputs broadcast as in NumPy.

    `function` is its name in small letters: add, sub, mul, div, relu, sigmoid, tanh, gelu, silu, erf, exp, pow, sqrt,
    clip, where, batch_norm, identity (casts, dropout), ... Any other name is a vector operator as well.
    """

    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize(Operator):
    """inputs: x, then parameters; the output has its shape, and each word depends on all of x along `axes`.

    `function`: softmax, layer_norm, rms_norm, group_norm, instance_norm, cumsum, ...
    """

    axes: tuple[int, ...]
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Operator):
    """One word for all along `axes`, which are left with size 1 or dropped. `function`: mean, max, sum, ..."""

    axes: tuple[int, ...]
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Operator):
    """Windows that slide over the image axes, which are all but the first two. `function`: max, average."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Operator):
    """Other sizes of axes, by interpolation or by repeating words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Operator):
    """The same sequence of words in another shape: flatten, squeeze and unsqueeze too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Operator):
    """Axis i of the output is axis ``permutation[i]`` of the input."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(Operator):
    """Axes of size 1 (or missing in front) are repeated to the output's size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Operator):
    """Inputs laid end to end along an axis."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Operator):
    """Along each axis of the input: the output's size of words, from `start` on, `step` apart (below 0: backwards)."""

    start: tuple[int, ...]
    step: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Operator):
    """Words added before and after each axis; negative ones are cut off."""

    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Operator):
    """inputs: a table, indices known at run time. Embeddings: reads only the rows it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry(Operator):
    """What a step of a loop leaves for the next, or all steps for those after the loop: it goes through DRAM.

    Without an output, it says that the inputs are written in each step.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque(Operator):
    """An operator that is not modelled: its outputs depend on all its inputs, and go through DRAM.

    `macs` estimates its multiply-accumulates; None where nobody can tell. `reason` completes "not modelled: ...".
    """

    reason: str
    macs: int | None = None


@dataclass(frozen=True)
class OperatorGraph:
    """Operators in an order in which they can run, the tensors they name, and the outputs of the network.

    `notes` are sentences for the report: what the front end assumed or left out.
    """

    name: str
    tensors: Mapping[str, Tensor]
    operators: tuple[Operator, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        made = {name for name, tensor in self.tensors.items() if tensor.role != "activation"}
        for operator in self.operators:
            for name in filter(None, operator.inputs):
                if name not in self.tensors:
                    raise ImportFailure(f"{operator.type} {operator.name!r} reads {name!r}, which nothing makes")
                if name not in made:
                    raise ImportFailure(f"{operator.type} {operator.name!r} reads {name!r} before it is made")
            for name in filter(None, operator.outputs):
                if name not in self.tensors:
                    raise ImportFailure(f"{operator.type} {operator.name!r} makes {name!r}, whose shape is not known")
                if name in made:
                    raise ImportFailure(f"{operator.type} {operator.name!r} makes {name!r}, which is there already")
                made.add(name)
        for name in self.outputs:
            if name not in made:
                raise ImportFailure(f"nothing makes the network output {name!r}")

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.tensors[tensor].shape
