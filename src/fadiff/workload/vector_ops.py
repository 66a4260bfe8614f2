"""How many operations the vector operators of a layer take: what a machine with a vector unit is charged for."""

from fadiff.workload.layer import RESIZING_OPS, Layer, VectorOp

OPERATIONS_PER_VALUE: dict[VectorOp, int] = {
    "bias": 1,  # an addition
    "batch_norm": 2,  # scale and shift
    "relu": 1,
    "gelu": 5,  # x / (1 + exp(-1.702 x))
    "silu": 5,  # x / (1 + exp(-x))
    "sigmoid": 4,  # 1 / (1 + exp(-x))
    "tanh": 5,  # (1 - exp(-2x)) / (1 + exp(-2x))
    "clip": 2,  # against both ends
    "scale": 1,
    "softmax": 5,  # largest, difference, exponential, sum, quotient
    "layer_norm": 7,  # sum, difference, square and its sum, quotient, scale and shift
    "max_pool": 1,
    "avg_pool": 1,
    "global_pool": 1,
    "flatten": 0,  # where a value stands is no operation
    "reshape": 0,
    "transpose": 0,
    "upsample": 1,
}
"""Operations for each value; an addition, a product, a comparison, an exponential and a quotient are one each.

Pooling takes one for each value that it reads, once whatever its windows, and upsampling one for each that it writes.
"""


def vector_operations(layer: Layer) -> int:
    """Operations of one run of a layer: its epilogue, and the additions of an add layer.

    Up to the operator that changes rows and columns they work on |O| values, after it on |O'|.

    >>> from fadiff.workload import Dims, Input
    >>> pooled = ("bias", "max_pool", "relu")
    >>> vector_operations(Layer("a", "mac", Dims(K=2, P=4), (Input(None),), epilogue=pooled, out=(2, 1)))
    20
    """
    values = layer.output_words
    found = 0 if layer.is_mac else (len(layer.inputs) - 1) * values
    for operator in layer.epilogue:
        after = layer.stored_words if operator in RESIZING_OPS else values
        found += OPERATIONS_PER_VALUE[operator] * (after if operator == "upsample" else values)
        values = after
    return found
