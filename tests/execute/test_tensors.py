import numpy as np
import pytest

from execute.builders import add, mac
from fadiff.execute.reference import add_output, mac_output
from fadiff.execute.tensors import (
    EXACT_TERMS,
    as_input,
    as_weight,
    exact_dtype,
    padding_before,
    random_words,
    requantised,
    resized,
    shift_of,
)


def by_hand(layer, words, weight):
    """Sums ``[N, G, K, P, Q]`` of a padded input ``[N, G, C, H, V]``, one multiplication at a time."""
    d = layer.dims
    sums = np.zeros((d.N, d.G, d.K, d.P, d.Q))
    for n, g, k, p, q, c, r, s in np.ndindex(d.N, d.G, d.K, d.P, d.Q, d.C, d.R, d.S):
        row = p * layer.stride[0] + r * layer.dilation[0]
        col = q * layer.stride[1] + s * layer.dilation[1]
        sums[n, g, k, p, q] += int(words[n, g, c, row, col]) * int(weight[g, k, c, r, s])
    return sums


@pytest.mark.parametrize(
    ("sizes", "rest"),
    [
        ("N3 K4 C5", {}),
        ("N2 K3 C2 P4 Q3 R3 S2", {}),
        ("N1 K2 C3 P3 Q2 R3 S3", {"stride": (2, 3)}),
        ("N1 K2 C2 P3 Q3 R2 S3", {"dilation": (2, 1), "stride": (1, 2)}),
        ("G3 N2 K2 C2 P2 Q2 R2 S2", {}),
        ("G4 P3 Q3 R3 S3", {}),
    ],
)
def test_the_direct_computation_is_the_definition(sizes, rest):
    layer = mac("a", sizes, **rest)
    d = layer.dims
    words = random_words((d.N, d.G, d.C, layer.input_rows, layer.input_cols), 1)
    weight = random_words((d.G, d.K, d.C, d.R, d.S), 2)
    flat = words.reshape(d.N, d.G * d.C, layer.input_rows, layer.input_cols)
    expected = requantised(by_hand(layer, words, weight), shift_of(layer))
    assert np.array_equal(mac_output(layer, [flat], weight), expected)


def test_a_smaller_input_is_padded_evenly_around():
    layer = mac("b", "K1 C1 P4 Q4 R3 S3", "a")
    stored = random_words((1, 1, 4, 4), 3)
    weight = np.zeros((1, 1, 1, 3, 3), np.int8)
    weight[..., 1, 1] = 64
    assert np.array_equal(
        mac_output(layer, [stored], weight)[0, 0, 0], np.clip(stored[0, 0].astype(int) // 2, -128, 127)
    )


@pytest.mark.parametrize(
    ("sizes", "rest", "stored", "before"),
    [
        ("P8 R3", {}, 8, 1),
        ("P8 R3", {}, 10, 0),
        ("P8 R3", {"stride": (2, 1)}, 16, 1),
        ("P8 R7", {"stride": (2, 1)}, 16, 3),
        ("P8 R1", {"stride": (2, 1)}, 16, 0),
        ("P8 R3", {"dilation": (2, 1)}, 8, 2),
        ("P8 R2", {}, 8, 0),
    ],
)
def test_padding_goes_half_before_and_the_rest_behind(sizes, rest, stored, before):
    assert padding_before(mac("b", sizes, **rest), stored, 0) == before


def test_sums_shift_down_and_clip():
    sums = np.array([-1.0, 0.0, 7.0, 8.0, -9.0, 5000.0, -5000.0])
    assert requantised(sums, 3).tolist() == [-1, 0, 0, 1, -2, 127, -128]


def test_the_worst_sum_is_still_exact():
    worst = np.full((1, EXACT_TERMS), -128, exact_dtype(EXACT_TERMS))
    assert worst.dtype == np.float32
    assert (worst @ worst.T).item() == EXACT_TERMS * 128 * 128
    assert exact_dtype(EXACT_TERMS + 1) is np.float64


def test_overlapping_windows_take_the_maximum_of_all_they_cover():
    layer = mac("a", "P5 Q1", epilogue=("max_pool",), out=(2, 1))
    words = np.array([1, 2, 9, 3, 4], np.int8).reshape(1, 1, 1, 5, 1)
    assert resized(words, layer, (0, 2), (0, 1)).ravel().tolist() == [9, 9]


def test_a_mean_rounds_down():
    layer = mac("a", "P2 Q2", epilogue=("avg_pool",), out=(1, 1))
    words = np.array([-1, 0, 0, 0], np.int8).reshape(1, 1, 1, 2, 2)
    assert resized(words, layer, (0, 1), (0, 1)).item() == -1


def test_upsampling_repeats_its_neighbour():
    layer = mac("a", "P2 Q1", epilogue=("upsample",), out=(4, 1))
    words = np.array([5, 6], np.int8).reshape(1, 1, 1, 2, 1)
    assert resized(words, layer, (1, 4), (0, 1)).ravel().tolist() == [5, 6, 6]


def test_a_reshape_of_rows_and_columns_keeps_the_sequence():
    layer = mac("a", "P1 Q6", epilogue=("reshape",), out=(2, 3))
    words = np.arange(6, dtype=np.int8).reshape(1, 1, 1, 1, 6)
    assert resized(words, layer, (1, 2), (0, 3)).ravel().tolist() == [3, 4, 5]


def test_a_key_projection_becomes_weights_of_each_head():
    keys = mac("k", "N5 K6 C2", epilogue=("transpose",))
    stored = random_words((5, 1, 6, 1, 1), 4)
    weight = as_weight(stored, keys, (2, 5, 3, 1, 1))
    assert weight[1, 4, 2, 0, 0] == stored[4, 0, 1 * 3 + 2, 0, 0]


def test_a_value_projection_becomes_weights_of_each_head():
    values = mac("v", "N5 K6 C2", epilogue=("reshape",))
    stored = random_words((5, 1, 6, 1, 1), 4)
    weight = as_weight(stored, values, (2, 3, 5, 1, 1))
    assert weight[1, 2, 4, 0, 0] == stored[4, 0, 1 * 3 + 2, 0, 0]


def test_heads_lie_end_to_end_in_the_channels():
    product = mac("av", "G2 N3 K4 C5", epilogue=("reshape",))
    stored = random_words((3, 2, 4, 1, 1), 5)
    read = as_input(stored, product, mac("out", "N3 K1 C8", "av"), 3)
    assert read[2, 1 * 4 + 3, 0, 0] == stored[2, 1, 3, 0, 0]


def test_a_transposed_input_runs_over_rows_fastest():
    first = mac("a", "N2 K3 C1", epilogue=("transpose",))
    stored = random_words((2, 1, 3, 1, 1), 6)
    read = as_input(stored, first, mac("b", "N3 K1 C2", "a"), 3)
    assert np.array_equal(read[:, :, 0, 0], stored[:, 0, :, 0, 0].T)


def test_addends_sum_and_clip():
    layer = add("s", "N1 K2", None, None)
    a = np.array([100, -3], np.int8).reshape(1, 2, 1, 1)
    b = np.array([100, 5], np.int8).reshape(1, 2, 1, 1)
    assert add_output(layer, [a, b]).ravel().tolist() == [127, 2]
