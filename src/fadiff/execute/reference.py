"""The direct computation of a layer on whole tensors: what its output must be, whatever the schedule."""

from itertools import product

import numpy as np

from fadiff.execute.tensors import Floats, Tensors, Words, data_lines, exact_dtype, residues, resized, resizes
from fadiff.workload import Layer, Workload

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
    return resized(output, layer, (0, rows), (0, cols)) if resizes(layer) else output


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
