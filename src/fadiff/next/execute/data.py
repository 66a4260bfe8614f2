"""Data and their meaning: random words, how a stored tensor is read, and what an epilogue computes.

Words are residues modulo 17, from -8 to 8, as int8. A sum becomes a word by taking its residue: that stands for every
elementwise operator of an epilogue, and for softmax and layer_norm too, since an online softmax sees a row in pieces
and only elementwise operations on integers have results that do not depend on the schedule. It is also a sharp check:
17 is prime, so one wrong factor in a sum changes the word, unless the other factor is 0. Products are at most 64, so
that float32 sums 2^18 of them without rounding.

Stored tensors are arrays ``[N, G, K, P', Q']``. Read in that order, element by element, they are the sequence that
*reshape* and *flatten* keep. One convention serves the executor and the direct computation alike:

- on an input port: ``[N, G*K, P', Q']``, the channels of all groups end to end; after flatten ``[N, G*K*P'*Q', 1, 1]``;
  a reshape into a layer without rows and columns keeps the sequence, a transpose runs over N fastest;
- on the weight port: the sequence fills ``W`` as ``[C, G, K, R, S]``, after a transpose as ``[K, G, C, R, S]``
  (so the N x K output of a key projection becomes ``W[G, K=N, C]``);
- on an addend port: the sequence fills ``[N, K, P, Q]``.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.workload import Input, Layer
from fadiff.workload.layer import Port

Words = NDArray[np.int8]
Floats = NDArray[np.float32 | np.float64]
FloatType = type[np.float32 | np.float64]
Span = tuple[int, int]
Pads = tuple[int, int]
"""Rows of padding above an operand, and columns to the left of it."""

MODULUS = 17
LARGEST = MODULUS // 2
"""Words are -8 .. 8."""
FLOAT32_TERMS = (1 << 24) // LARGEST**2
"""Products of two words that float32 sums exactly."""


def exact_dtype(terms: int) -> FloatType:
    """The float type that sums this many products of words without rounding."""
    return np.float32 if terms <= FLOAT32_TERMS else np.float64


def random_words(shape: tuple[int, ...], *key: int) -> Words:
    """Random words; the same key gives the same words."""
    return np.random.default_rng(key).integers(-LARGEST, LARGEST + 1, size=shape, dtype=np.int8)


def residues(sums: Floats) -> Words:
    """Sums as words."""
    whole = sums.astype(np.int64 if sums.dtype == np.float64 else np.int32)
    whole += LARGEST
    whole -= MODULUS * (whole // MODULUS)
    whole -= LARGEST
    return whole.astype(np.int8)


def pads(layer: Layer, operand: Input, stored: tuple[int, int]) -> Pads:
    """The padding before an operand of so many rows and columns; what a network brings from outside is padded."""
    return (0, 0) if operand.is_foreign else (layer.pad_before(0, stored[0]), layer.pad_before(1, stored[1]))


def reads_whole(producer: Layer, layer: Layer) -> bool:
    """Whether a layer reads its input as a sequence of words, without rows and columns of its own."""
    if "flatten" in producer.epilogue:
        return True
    reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
    d = layer.dims
    alone = sum(operand.port == "input" for operand in layer.inputs) == 1
    return reshaped and alone and d.P == d.Q == d.R == d.S == 1


def as_operand(stored: Words, producer: Layer, layer: Layer, port: Port) -> Words:
    """A stored tensor as a port of a layer reads it.

    Input: ``[N, channels, rows, columns]``; weight: ``W[G, K, C, R, S]``; addend: ``[N, K, P, Q]``.
    """
    d, (n, g, k, p, q) = layer.dims, stored.shape
    transposed = "transpose" in producer.epilogue
    if port == "addend":
        return stored.reshape(d.N, d.K, d.P, d.Q)
    if port == "weight":
        if transposed:
            return stored.reshape(d.K, d.G, d.C, d.R, d.S).transpose(1, 0, 2, 3, 4)
        return stored.reshape(d.C, d.G, d.K, d.R, d.S).transpose(1, 2, 0, 3, 4)
    if not reads_whole(producer, layer):
        return stored.reshape(n, g * k, p, q)
    sequence = stored.reshape(n, -1).T if transposed else stored
    return sequence.reshape(d.N, -1, 1, 1)


def resizes(layer: Layer) -> bool:
    """Whether the epilogue stores other rows and columns than the layer computes."""
    return layer.stored != (layer.dims.P, layer.dims.Q)


def resized(words: Words, layer: Layer, rows: Span, cols: Span) -> Words:
    """Rows and columns `rows` x `cols` of the stored tensor, from computed words ``[..., P, Q]``.

    Stored row j covers computed rows floor(j*P/P') to ceil((j+1)*P/P') - 1, columns likewise: max_pool takes their
    maximum, avg_pool and global_pool their mean, rounded down, upsample the first. A reshape keeps the sequence.
    """
    pool = next((op for op in reversed(layer.epilogue) if op.endswith("pool") or op == "upsample"), "reshape")
    if pool == "reshape" and prod(layer.stored) == layer.dims.P * layer.dims.Q:
        reshaped = words.reshape(*words.shape[:-2], *layer.stored)
        return reshaped[..., slice(*rows), slice(*cols)]
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


def _windows(computed: int, stored: int, which: Span) -> list[Span]:
    return [(j * computed // stored, -(-(j + 1) * computed // stored)) for j in range(*which)]
