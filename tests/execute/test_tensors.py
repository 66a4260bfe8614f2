"""Data and their meaning: residues, products, epilogues, how tensors are read, and tiles that slide."""

from itertools import product as indices

import numpy as np
import pytest

from execute.builders import add, mac
from fadiff.execute.mac_run import product
from fadiff.execute.operands import Operand, Tile, input_parts
from fadiff.execute.tensors import Tensors, direct_output, residues, resized
from fadiff.workload import Dims, Workload


def test_a_sum_becomes_its_residue():
    sums = np.arange(-40, 41, dtype=np.float32)
    words = residues(sums)
    assert words.min() == -8
    assert words.max() == 8
    assert np.all((sums - words) % 17 == 0)


def test_residues_of_the_largest_exact_sums_are_exact():
    sums = np.array([2**24, -(2**24), 2**24 - 1], np.float32)
    assert residues(sums).tolist() == residues(sums.astype(np.float64)).tolist() == [1, -1, 0]


@pytest.mark.parametrize("sizes", ["G2 N2 K3 C4 P3 Q2 R3 S2", "K2 C3 P4 Q5", "N5 K3 C4", "G6 P4 Q4 R3 S3"])
def test_a_product_is_what_its_loops_say(sizes):
    layer = mac("c", sizes, stride=(2, 1), dilation=(1, 2))
    g, n, k, c, p, q, r, s = layer.dims
    random = np.random.default_rng(1)
    weights = random.integers(-8, 9, (g, k, c, r, s)).astype(np.float32)
    inputs = random.integers(-8, 9, (g, n, c, layer.input_rows, layer.input_cols)).astype(np.float32)
    expected = np.zeros((g, k, n, p, q))
    for g_, n_, k_, c_, p_, q_, r_, s_ in indices(*map(range, layer.dims)):
        value = inputs[g_, n_, c_, 2 * p_ + r_, q_ + 2 * s_]
        expected[g_, k_, n_, p_, q_] += weights[g_, k_, c_, r_, s_] * value
    assert np.array_equal(product(layer, weights, inputs, p, q), expected)
    direct = _output(layer, weights, inputs)
    assert np.array_equal(residues(expected).transpose(2, 0, 1, 3, 4), direct)


def _output(layer, weights, inputs):
    tensors = Tensors(Workload("w", (layer,)), 0, {})
    g, n, c, rows, cols = inputs.shape
    image = inputs.transpose(1, 0, 2, 3, 4).reshape(n, g * c, rows, cols).astype(np.int8)
    tensors._outside["c"] = {0: image, 1: weights.astype(np.int8)}
    return direct_output(Workload("w", (layer,)), layer, tensors)


@pytest.mark.parametrize(
    ("operator", "out", "expected"),
    [
        ("max_pool", (2, 1), [[7], [15]]),
        ("avg_pool", (2, 1), [[3], [11]]),
        ("global_pool", (1, 1), [[7]]),
        ("upsample", (4, 8), np.repeat(np.arange(16).reshape(4, 4), 2, axis=1)),
        ("reshape", (2, 8), np.arange(16).reshape(2, 8)),
    ],
)
def test_epilogues_that_resize(operator, out, expected):
    layer = mac("c", "P4 Q4", epilogue=(operator,), out=out)
    words = np.arange(16, dtype=np.int8).reshape(4, 4)
    found = resized(words, layer, (0, out[0]), (0, out[1]))
    assert np.array_equal(found, np.array(expected))
    assert np.array_equal(resized(words, layer, (out[0] - 1, out[0]), (0, out[1])), found[-1:])


def test_tensors_are_read_as_their_epilogue_leaves_them():
    k = mac("k", "N6 K8 C4", epilogue=("transpose",))
    q = mac("q", "G2 N4 K6 C4", None, ("k", "weight"), epilogue=("reshape",))
    o = mac("o", "N4 K3 C12", "q")
    workload = Workload("w", (k, q, o, add("s", "N4 K3", "o", None)))
    tensors = Tensors(workload, 0, {})
    tensors.stored["k"] = np.arange(48, dtype=np.int8).reshape(6, 1, 8, 1, 1)
    tensors.stored["q"] = np.arange(48, dtype=np.int8).reshape(4, 2, 6, 1, 1)
    tensors.stored["o"] = np.zeros((4, 1, 3, 1, 1), np.int8)
    assert tensors.weights(q)[1, 5, 2, 0, 0] == 5 * 8 + 1 * 4 + 2
    assert tensors.operand(o, 0)[3, 7, 0, 0] == 3 * 12 + 7
    assert tensors.operand(workload["s"], 0).shape == tensors.operand(workload["s"], 1).shape == (4, 3, 1, 1)


IMAGE = np.arange(1, 41, dtype=np.int8).reshape(1, 2, 5, 4)
"""Two channels of 5 x 4, here with one row of padding above and below."""
PADDED = Operand([*input_parts(Dims(C=2, P=7, Q=4), (0, 2), lambda: IMAGE, ((1, 6), (0, 4)), False)], np.float32)


def test_a_box_is_taken_with_zeros_around_it():
    taken = PADDED.take(((0, 1), (0, 1), (0, 2), (0, 3), (1, 3)))
    assert taken.values[0, 0, 0].tolist() == [[0, 0], [2, 3], [6, 7]]
    assert (taken.wanted, taken.data) == (12, 8)


def test_a_window_that_slides_holds_what_it_should_and_brings_what_is_new():
    tile, whole = Tile(PADDED), PADDED.take(((0, 1), (0, 1), (0, 2), (0, 7), (0, 4))).values
    tile.bring(((0, 1), (0, 1), (0, 2), (0, 3), (0, 4)))
    for first in (2, 4):
        box = ((0, 1), (0, 1), (0, 2), (first, first + 3), (0, 4))
        assert tile.bring(box, slides=True).wanted == 2 * 2 * 4
        assert np.array_equal(tile.read(box), whole[:, :, :, first : first + 3])


def test_channels_of_a_concatenation_lie_end_to_end_over_the_groups():
    dims, line = Dims(G=3, C=2), ((0, 1), (0, 1))
    fused = input_parts(dims, (0, 3), lambda: np.full((1, 3, 1, 1), 1, np.int8), line, True)
    unfused = input_parts(dims, (3, 6), lambda: np.full((1, 3, 1, 1), 2, np.int8), line, False)
    inputs = Operand([*fused, *unfused], np.float32)
    taken = inputs.take(((0, 3), (0, 1), (0, 2), (0, 1), (0, 1)))
    assert taken.values[:, 0, :, 0, 0].tolist() == [[1, 1], [1, 2], [2, 2]]
    assert taken.wanted == taken.data == 3
    assert inputs.most_unfused(1, 2) == 2
    assert inputs.most_unfused(3, 1) == 2
