"""Data and their meaning: random words, how a stored tensor is read, and what an epilogue computes.

Stored tensors are int8 arrays ``[N, G, K, P', Q']``. Read in that order, element by element, they are the sequence
that *reshape* and *flatten* keep. One convention serves the executor and the direct computation alike:

- on an input port: ``[N, G*K, P', Q']``, the channels of all groups end to end; after flatten ``[N, G*K*P'*Q', 1, 1]``;
  a reshape into a layer without rows and columns keeps the sequence, a transpose runs over N fastest;
- on the weight port: the sequence fills ``W`` as ``[C, G, K, R, S]``, after a transpose as ``[K, G, C, R, S]``
  (so the N x K output of a key projection becomes ``W[G, K=N, C]``);
- on an addend port: the sequence fills ``[N, K, P, Q]``.

Sums become stored words by an arithmetic shift and a clip to int8. It stands for every elementwise operator of an
epilogue, and for softmax and layer_norm too: an online softmax sees a row in pieces, so only elementwise operations on
integers have results that do not depend on the schedule.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.workload import Layer

Words = NDArray[np.int8]
Floats = NDArray[np.float32 | np.float64]
FloatType = type[np.float32 | np.float64]

EXACT_TERMS = 1 << 10
"""Products of two int8 words that float32 sums exactly: 2^10 * 2^14 = 2^24."""


def exact_dtype(terms: int) -> FloatType:
    """The float type that sums this many products of int8 words without rounding."""
    return np.float32 if terms <= EXACT_TERMS else np.float64


def random_words(shape: tuple[int, ...], *key: int) -> Words:
    """Random int8 words of full range; the same key gives the same words."""
    return np.random.default_rng(key).integers(-128, 128, size=shape, dtype=np.int8)


def padding_before(layer: Layer, stored: int, axis: int) -> int:
    """Rows (axis 0) or columns (axis 1) of padding above or left of an input that stores `stored` of them."""
    kernel = (layer.dims.R, layer.dims.S)[axis]
    wanted = (layer.input_rows, layer.input_cols)[axis]
    return min((kernel - 1) * layer.dilation[axis] // 2, max(0, wanted - stored))


def reads_whole(producer: Layer, layer: Layer) -> bool:
    """Whether a layer reads its input as a sequence of words, without rows and columns of its own."""
    if "flatten" in producer.epilogue:
        return True
    reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
    d = layer.dims
    alone = sum(operand.port == "input" for operand in layer.inputs) == 1
    return reshaped and alone and d.P == d.Q == d.R == d.S == 1


def as_input(stored: Words, producer: Layer, layer: Layer, batch: int) -> Words:
    """A stored tensor ``[n, g, k, P', Q']`` as a layer's input port reads it: ``[batch, channels, rows, columns]``."""
    n, g, k, p, q = stored.shape
    if not reads_whole(producer, layer):
        return stored.reshape(n, g * k, p, q)
    if "transpose" in producer.epilogue:
        return np.ascontiguousarray(stored.reshape(n, -1).T).reshape(batch, -1, 1, 1)
    return stored.reshape(batch, -1, 1, 1)


def as_weight(stored: Words, producer: Layer, shape: tuple[int, int, int, int, int]) -> Words:
    """A stored tensor as the weight port reads it: ``W[G, K, C, R, S]`` of the given shape."""
    g, k, c, r, s = shape
    if "transpose" in producer.epilogue:
        return stored.reshape(k, g, c, r, s).transpose(1, 0, 2, 3, 4)
    return stored.reshape(c, g, k, r, s).transpose(1, 2, 0, 3, 4)


def shift_of(layer: Layer) -> int:
    """Bits a sum of the layer loses on its way to int8: few enough that values do not die out along a network."""
    d = layer.dims
    terms = d.C * d.R * d.S
    return 6 + (terms.bit_length() - 1) // 2 if layer.is_mac else 0


def requantised(sums: Floats, shift: int) -> Words:
    """Sums as stored words: arithmetic shift, then clip to int8. Overwrites `sums`."""
    np.multiply(sums, 2.0**-shift, out=sums)
    np.floor(sums, out=sums)
    np.maximum(sums, -128, out=sums)
    np.minimum(sums, 127, out=sums)
    return sums.astype(np.int8)


def resizes(layer: Layer) -> bool:
    """Whether the epilogue stores other rows and columns than the layer computes."""
    return layer.stored != (layer.dims.P, layer.dims.Q)


def resized(words: Words, layer: Layer, rows: tuple[int, int], cols: tuple[int, int]) -> Words:
    """Rows and columns `rows` x `cols` of the stored tensor, from computed words ``[..., P, Q]``.

    Stored row j covers computed rows floor(j*P/P') to ceil((j+1)*P/P') - 1, columns likewise: max_pool takes their
    maximum, avg_pool and global_pool their mean, rounded down, upsample the first. A reshape keeps the sequence.
    """
    pool = next((op for op in reversed(layer.epilogue) if op.endswith("pool") or op == "upsample"), "upsample")
    if "reshape" in layer.epilogue and prod(layer.stored) == layer.dims.P * layer.dims.Q:
        reshaped = words.reshape(*words.shape[:-2], *layer.stored)
        return reshaped[..., rows[0] : rows[1], cols[0] : cols[1]]
    row_windows = _windows(layer.dims.P, layer.stored[0], rows)
    col_windows = _windows(layer.dims.Q, layer.stored[1], cols)
    if pool == "upsample":
        return words[..., [a for a, _ in row_windows], :][..., [a for a, _ in col_windows]]
    if pool == "max_pool":
        tall = np.stack([words[..., a:b, :].max(axis=-2) for a, b in row_windows], axis=-2)
        return np.stack([tall[..., a:b].max(axis=-1) for a, b in col_windows], axis=-1)
    tall = np.stack([words[..., a:b, :].sum(axis=-2, dtype=np.int64) for a, b in row_windows], axis=-2)
    total = np.stack([tall[..., a:b].sum(axis=-1) for a, b in col_windows], axis=-1)
    area = np.outer([b - a for a, b in row_windows], [b - a for a, b in col_windows])
    return (total // area).astype(np.int8)


def _windows(computed: int, stored: int, which: tuple[int, int]) -> list[tuple[int, int]]:
    return [(j * computed // stored, -(-(j + 1) * computed // stored)) for j in range(*which)]
