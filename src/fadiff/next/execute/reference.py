"""The direct computation of a layer on whole tensors: what its output must be, whatever the schedule."""

from collections.abc import Sequence

import numpy as np

from fadiff.next.execute.data import Floats, Pads, Words, exact_dtype, residues, resized, resizes
from fadiff.workload import Layer

BLOCK_SUMS = 1 << 25
"""Sums computed at a time, so that a large layer does not need its whole output as floats."""


def mac_output(layer: Layer, inputs: Sequence[tuple[Words, Pads]], weight: Words) -> Words:
    """Stored output ``[N, G, K, P', Q']`` of a MAC layer.

    `inputs` are its operands on the input port, ``[N, channels, rows, columns]`` each and in order, with the padding
    above and to the left of them; `weight` is ``[G, K, C, R, S]``.
    """
    d = layer.dims
    padded = np.concatenate([_padded(layer, words, pads) for words, pads in inputs], axis=1)
    padded = padded.reshape(d.N, d.G, d.C, layer.input_rows, layer.input_cols).transpose(1, 2, 0, 3, 4)
    output = np.empty((d.N, d.G, d.K, d.P, d.Q), np.int8)
    block = max(1, BLOCK_SUMS // (d.K * d.N * d.P * d.Q))
    for g in range(0, d.G, block):
        words = residues(_convolved(layer, padded[g : g + block], weight[g : g + block]))
        output[:, g : g + block] = words.reshape(-1, d.K, d.N, d.P, d.Q).transpose(2, 0, 1, 3, 4)
    return _stored(layer, output)


def add_output(layer: Layer, addends: Sequence[Words]) -> Words:
    """Stored output ``[N, 1, K, P', Q']`` of an add layer from addends ``[N, K, P, Q]``."""
    total = np.zeros(addends[0].shape, np.float32)
    for addend in addends:
        total += addend
    return _stored(layer, residues(total)[:, None])


def _stored(layer: Layer, output: Words) -> Words:
    rows, cols = layer.stored
    return resized(output, layer, (0, rows), (0, cols)) if resizes(layer) else output


def _padded(layer: Layer, words: Words, pads: Pads) -> Words:
    """The input as the layer addresses it: zeros around it, rows and columns that no stride reaches cut off."""
    rows, cols = layer.input_rows, layer.input_cols
    top, left = pads
    result = np.zeros((*words.shape[:2], rows, cols), np.int8)
    inside = words[:, :, : rows - top, : cols - left]
    result[:, :, top : top + inside.shape[2], left : left + inside.shape[3]] = inside
    return result


def _convolved(layer: Layer, padded: Words, weight: Words) -> Floats:
    """Sums ``[g, K, N*P*Q]`` of some groups, one kernel position at a time."""
    d = layer.dims
    groups, dtype = padded.shape[0], exact_dtype(d.C * d.R * d.S)
    sums: Floats = np.zeros((groups, d.K, d.N * d.P * d.Q), dtype)
    for r in range(d.R):
        for s in range(d.S):
            top, left = r * layer.dilation[0], s * layer.dilation[1]
            bottom = top + (d.P - 1) * layer.stride[0] + 1
            right = left + (d.Q - 1) * layer.stride[1] + 1
            window = padded[:, :, :, top : bottom : layer.stride[0], left : right : layer.stride[1]]
            sums += weight[..., r, s].astype(dtype) @ window.reshape(groups, d.C, -1).astype(dtype)
    return sums
