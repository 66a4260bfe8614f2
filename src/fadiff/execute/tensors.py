"""Data and their meaning: random words, how a tensor is read, what an epilogue computes, and outputs computed directly.

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

from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.workload import Layer, Workload

Words = NDArray[np.int8]
Floats = NDArray[np.float32 | np.float64]
FloatType = type[np.float32 | np.float64]
Span = tuple[int, int]
Image = tuple[Span, Span]
"""The rows and the columns of an operand, first and end, that are data: the others are padding."""

MODULUS = 17
LARGEST = MODULUS // 2
"""Words are -8 .. 8."""
FLOAT32_TERMS = (1 << 24) // LARGEST**2
"""Products of two words that float32 sums exactly."""


def exact_dtype(layer: Layer) -> FloatType:
    """The float type that sums a layer's products of words without rounding."""
    return np.float32 if layer.dims.C * layer.dims.R * layer.dims.S <= FLOAT32_TERMS else np.float64


def residues(sums: Floats) -> Words:
    """Sums as words."""
    whole = sums.astype(np.int64 if sums.dtype == np.float64 else np.int32)
    whole += LARGEST
    whole -= MODULUS * (whole // MODULUS)
    whole -= LARGEST
    return whole.astype(np.int8)


class Tensors:
    """All tensors of a network: `stored` outputs, and what comes from outside, at random.

    A network input has exactly the rows and columns that its layer reads, so it needs no padding. What cannot be fused
    is such an input too: how it comes from its producer's words is not known.
    """

    def __init__(self, workload: Workload, seed: int, outside: dict[str, dict[int, Words]]) -> None:
        """`outside` takes the random words, by layer and number of the operand."""
        self.stored: dict[str, Words] = {}
        self._workload, self._seed, self._outside = workload, seed, outside

    def operand(self, layer: Layer, place: int) -> Words:
        """One of a layer's inputs as its port reads it.

        Input: ``[N, channels, rows, columns]``; weight: ``W[G, K, C, R, S]``; addend: ``[N, K, P, Q]``.
        """
        operand, d = layer.inputs[place], layer.dims
        if operand.source is not None and not operand.is_foreign:
            return _as_read(self.stored[operand.source], self._workload[operand.source], layer, operand.port)
        images = (d.N, self._workload.input_channels(layer)[place], layer.input_rows, layer.input_cols)
        shapes = {"input": images, "weight": (d.G, d.K, d.C, d.R, d.S), "addend": (d.N, d.K, d.P, d.Q)}
        return self._random(layer, place, shapes[operand.port])

    def weights(self, layer: Layer) -> Words:
        """``W[G, K, C, R, S]``: parameters, or what arrives on the weight port."""
        d, ports = layer.dims, [operand.port for operand in layer.inputs]
        if "weight" in ports:
            return self.operand(layer, ports.index("weight"))
        return self._random(layer, len(ports), (d.G, d.K, d.C, d.R, d.S))

    def _random(self, layer: Layer, place: int, shape: tuple[int, ...]) -> Words:
        known = self._outside.setdefault(layer.name, {})
        if place not in known:
            random = np.random.default_rng((self._seed, self._workload.depth[layer.name], place))
            known[place] = random.integers(-LARGEST, LARGEST + 1, shape, np.int8)
        return known[place]


def _as_read(stored: Words, producer: Layer, layer: Layer, port: str) -> Words:
    """A stored tensor as a port of a layer reads it."""
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
    return (stored.reshape(n, -1).T if transposed else stored).reshape(d.N, -1, 1, 1)


def reads_whole(producer: Layer, layer: Layer) -> bool:
    """Whether a layer reads its input as a sequence of words, without rows and columns of its own."""
    if "flatten" in producer.epilogue:
        return True
    reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
    alone = sum(operand.port == "input" for operand in layer.inputs) == 1
    return reshaped and alone and layer.dims[4:] == (1, 1, 1, 1)


def data_lines(workload: Workload, layer: Layer, place: int) -> Image:
    """Rows and columns of an input, counted with padding, that are data."""
    operand = layer.inputs[place]
    if operand.source is None or operand.is_foreign:
        return (0, layer.input_rows), (0, layer.input_cols)
    source = workload[operand.source]
    stored = (1, 1) if reads_whole(source, layer) else source.stored
    top, left = (layer.pad_before(axis, stored[axis]) for axis in (0, 1))
    return (top, top + stored[0]), (left, left + stored[1])


def resized(words: Words, layer: Layer, rows: Span, cols: Span) -> Words:
    """Rows and columns `rows` x `cols` of the stored tensor, from computed words ``[..., P, Q]``.

    Stored row j covers computed rows floor(j*P/P') to ceil((j+1)*P/P') - 1, columns likewise: max_pool takes their
    maximum, avg_pool and global_pool their mean, rounded down, upsample the first. A reshape keeps the sequence.
    """
    computed = (layer.dims.P, layer.dims.Q)
    pool = next((op for op in reversed(layer.epilogue) if op.endswith("pool") or op == "upsample"), "reshape")
    if layer.stored == computed or (pool == "reshape" and prod(layer.stored) == prod(computed)):
        return words.reshape(*words.shape[:-2], *layer.stored)[..., slice(*rows), slice(*cols)]
    row_windows, col_windows = map(_windows, computed, layer.stored, (rows, cols))
    if pool == "upsample":
        return words[..., [a for a, _ in row_windows], :][..., [a for a, _ in col_windows]]
    pooled = np.maximum if pool == "max_pool" else np.add
    tall = np.stack([pooled.reduce(words[..., a:b, :], axis=-2, dtype=np.int64) for a, b in row_windows], axis=-2)
    total = np.stack([pooled.reduce(tall[..., a:b], axis=-1) for a, b in col_windows], axis=-1)
    area = np.outer([b - a for a, b in row_windows], [b - a for a, b in col_windows]) if pooled is np.add else 1
    return (total // area).astype(np.int8)


def _windows(computed: int, stored: int, which: Span) -> list[Span]:
    return [(j * computed // stored, -(-(j + 1) * computed // stored)) for j in range(*which)]


BLOCK_SUMS = 1 << 25
"""Sums computed at a time, so that a large layer does not need its whole output as floats."""


def direct_output(workload: Workload, layer: Layer, tensors: Tensors) -> Words:
    """Stored output ``[N, G, K, P', Q']`` of a layer, from the tensors that it reads."""
    if layer.is_mac:
        output = _macs(layer, _padded_input(workload, layer, tensors), tensors.weights(layer))
    else:
        addends = [tensors.operand(layer, place).astype(np.float32) for place in range(len(layer.inputs))]
        output = residues(sum(addends[1:], addends[0]))[:, None]
    rows, cols = layer.stored
    return resized(output, layer, (0, rows), (0, cols))


def _padded_input(workload: Workload, layer: Layer, tensors: Tensors) -> Words:
    """The input ``[N, G*C, H, V]``: operands end to end, zeros around each, lines that no stride reaches cut off."""
    found: list[Words] = []
    for place, operand in enumerate(layer.inputs):
        if operand.port == "input":
            words, ((top, _), (left, _)) = tensors.operand(layer, place), data_lines(workload, layer, place)
            padded = np.zeros((*words.shape[:2], layer.input_rows, layer.input_cols), np.int8)
            inside = words[:, :, : layer.input_rows - top, : layer.input_cols - left]
            padded[:, :, top : top + inside.shape[2], left : left + inside.shape[3]] = inside
            found.append(padded)
    return np.concatenate(found, axis=1)


def _macs(layer: Layer, padded: Words, weight: Words) -> Words:
    """Outputs ``[N, G, K, P, Q]``, some groups and one kernel position at a time."""
    d, dtype = layer.dims, exact_dtype(layer)
    groups = padded.reshape(d.N, d.G, d.C, *padded.shape[2:]).transpose(1, 2, 0, 3, 4)
    output = np.empty((d.N, d.G, d.K, d.P, d.Q), np.int8)
    block = max(1, BLOCK_SUMS // (d.K * d.N * d.P * d.Q))
    for g in range(0, d.G, block):
        some = groups[g : g + block]
        sums: Floats = np.zeros((len(some), d.K, d.N * d.P * d.Q), dtype)
        for kernel in product(range(d.R), range(d.S)):
            ways = zip(kernel, layer.dilation, (d.P, d.Q), layer.stride, strict=True)
            rows, cols = (slice(at * gap, at * gap + (count - 1) * step + 1, step) for at, gap, count, step in ways)
            window = some[:, :, :, rows, cols].reshape(len(some), d.C, -1)
            sums += weight[g : g + block, ..., *kernel].astype(dtype) @ window.astype(dtype)
        output[:, g : g + block] = residues(sums).reshape(-1, d.K, d.N, d.P, d.Q).transpose(2, 0, 1, 3, 4)
    return output
