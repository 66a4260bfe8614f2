"""The direct computation of a layer on whole tensors: what its output must be, whatever the schedule."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.tensors import (
    EXACT_TERMS,
    Words,
    padding_before,
    requantised,
    resized,
    resizes,
    shift_of,
)
from fadiff.workload import Layer

BLOCK_SUMS = 1 << 25
"""Sums computed at a time, so that a large layer does not need its whole output in float64."""


def mac_output(layer: Layer, inputs: Sequence[Words], weight: Words) -> Words:
    """Stored output ``[N, G, K, P', Q']`` of a MAC layer.

    `inputs` are its operands on the input port, ``[N, channels, rows, columns]`` each and in order; `weight` is
    ``[G, K, C, R, S]``.
    """
    d = layer.dims
    padded = np.concatenate([_padded(layer, words) for words in inputs], axis=1)
    padded = padded.reshape(d.N, d.G, d.C, layer.input_rows, layer.input_cols).transpose(1, 2, 0, 3, 4)
    output = np.empty((d.N, d.G, d.K, d.P, d.Q), np.int8)
    block = max(1, BLOCK_SUMS // (d.K * d.N * d.P * d.Q))
    for g in range(0, d.G, block):
        sums = _convolved(layer, padded[g : g + block], weight[g : g + block])
        words = requantised(sums, shift_of(layer)).reshape(-1, d.K, d.N, d.P, d.Q)
        output[:, g : g + block] = words.transpose(2, 0, 1, 3, 4)
    return _stored(layer, output)


def add_output(layer: Layer, addends: Sequence[Words]) -> Words:
    """Stored output ``[N, 1, K, P', Q']`` of an add layer from addends ``[N, K, P, Q]``."""
    total = np.zeros(addends[0].shape)
    for addend in addends:
        total += addend
    return _stored(layer, requantised(total, shift_of(layer))[:, None])


def _stored(layer: Layer, output: Words) -> Words:
    rows, cols = layer.stored
    return resized(output, layer, (0, rows), (0, cols)) if resizes(layer) else output


def _padded(layer: Layer, words: Words) -> Words:
    """The input as the layer addresses it: zeros around it, rows and columns that no stride reaches cut off."""
    rows, cols = layer.input_rows, layer.input_cols
    top, left = (padding_before(layer, words.shape[2 + axis], axis) for axis in (0, 1))
    result = np.zeros((*words.shape[:2], rows, cols), np.int8)
    inside = words[:, :, : rows - top, : cols - left]
    result[:, :, top : top + inside.shape[2], left : left + inside.shape[3]] = inside
    return result


def _convolved(layer: Layer, padded: Words, weight: Words) -> NDArray[np.float64]:
    """Sums ``[g, K, N*P*Q]`` of some groups, one kernel position and at most `EXACT_TERMS` channels at a time."""
    d = layer.dims
    groups = padded.shape[0]
    sums = np.zeros((groups, d.K, d.N * d.P * d.Q))
    for r in range(d.R):
        for s in range(d.S):
            top, left = r * layer.dilation[0], s * layer.dilation[1]
            bottom = top + (d.P - 1) * layer.stride[0] + 1
            right = left + (d.Q - 1) * layer.stride[1] + 1
            window = padded[:, :, :, top : bottom : layer.stride[0], left : right : layer.stride[1]]
            for c in range(0, d.C, EXACT_TERMS):
                part = window[:, c : c + EXACT_TERMS]
                columns = part.reshape(groups, part.shape[1], -1).astype(np.float32)
                sums += weight[:, :, c : c + EXACT_TERMS, r, s].astype(np.float32) @ columns
    return sums
