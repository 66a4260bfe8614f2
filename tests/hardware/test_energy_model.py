import csv
import json
import math
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff.hardware import load_machine, row_bits, sram_pj_per_byte, word_pj
from fadiff.hardware.sram_network import CAPACITY_BYTES, WIDTH_BITS, Weights, log_network, shipped_weights

TABLE = Path(__file__).parents[2] / "data" / "cacti_sram_epa.csv"

# The first example of a test waits for compilation.
patient = settings(deadline=None)
slope_by_capacity = jax.jit(jax.grad(lambda capacity, width_bits: sram_pj_per_byte(capacity, width_bits, jnp)))

capacities = st.integers(*CAPACITY_BYTES)
any_capacities = capacities | st.integers(1, 2**40)
widths = st.floats(*WIDTH_BITS)


def cacti_pj_per_byte() -> dict[tuple[int, int], float]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {
            (int(row["capacity_bytes"]), int(row["width_bits"])): (
                float(row["read_pj_per_byte"]) + float(row["write_pj_per_byte"])
            )
            / 2
            for row in csv.DictReader(stream)
        }


def relative_errors(points: list[tuple[int, int]]) -> np.ndarray:
    table = cacti_pj_per_byte()
    capacity_bytes, width_bits = np.array(points, dtype=np.float64).T
    return np.abs(sram_pj_per_byte(capacity_bytes, width_bits) / np.array([table[point] for point in points]) - 1)


@given(any_capacities, any_capacities, widths)
@patient
def test_a_larger_memory_costs_more_an_access(one: int, other: int, width_bits: float):
    small, large = sorted((one, other))
    if small < large:
        assert sram_pj_per_byte(float(small), width_bits) < sram_pj_per_byte(float(large), width_bits)


@given(capacities, widths, widths)
@patient
def test_a_byte_of_a_wider_row_never_costs_more(capacity_bytes: int, one: float, other: float):
    narrow, wide = sorted((one, other))
    cost = sram_pj_per_byte(np.full(2, float(capacity_bytes)), np.array([narrow, wide]))
    assert cost[1] <= cost[0] * (1 + 1e-12)


@given(
    st.integers(0, 2**32 - 1),
    st.floats(1, 20),
    st.floats(*CAPACITY_BYTES),
    st.floats(*CAPACITY_BYTES),
    widths,
)
@patient
def test_energy_rises_with_capacity_whatever_the_weights_are(
    seed: int, scale: float, one: float, other: float, width_bits: float
):
    rng = np.random.default_rng(seed)
    shapes = ((8,), (8,), (8,), (8,), (), (), ())
    weights = Weights(*(scale * rng.normal(size=shape) for shape in shapes))
    low, high = log_network(weights, np.array(sorted((one, other))), width_bits, -1)
    assert low <= high + 1e-9


@given(st.floats(1100, 8e6), widths)
@patient
def test_the_gradient_by_capacity_is_finite_and_positive_inside_the_table(capacity_bytes: float, width_bits: float):
    slope = slope_by_capacity(capacity_bytes, width_bits)
    assert math.isfinite(slope)
    assert slope > 0


@given(st.floats(1100, 8e6), widths)
@patient
def test_the_gradient_is_the_slope_of_the_curve(capacity_bytes: float, width_bits: float):
    step = capacity_bytes * 1e-4
    above, below = sram_pj_per_byte(np.array([capacity_bytes + step, capacity_bytes - step]), width_bits)
    slope = slope_by_capacity(capacity_bytes, width_bits)
    assert float(slope) == pytest.approx((above - below) / (2 * step), rel=1e-3)


@pytest.mark.parametrize(("edge_bytes", "factor"), [(1024.0, 1 / 1024), (1024.0, 0.5), (8.0 * 1024**2, 3.0)])
def test_beyond_the_table_energy_follows_the_square_root_of_the_capacity(edge_bytes: float, factor: float):
    extrapolated = sram_pj_per_byte(edge_bytes * factor, 32.0)
    assert extrapolated == pytest.approx(sram_pj_per_byte(edge_bytes, 32.0) * math.sqrt(factor), rel=1e-12)
    assert float(slope_by_capacity(edge_bytes * factor, 32.0)) == pytest.approx(
        extrapolated / (2 * edge_bytes * factor), rel=1e-3
    )


@given(capacities, widths)
@patient
def test_inside_the_table_energy_is_the_networks_to_the_last_digit(capacity_bytes: int, width_bits: float):
    network_pj = np.exp(log_network(shipped_weights("energy"), float(capacity_bytes), width_bits, -1))
    assert sram_pj_per_byte(float(capacity_bytes), width_bits) == network_pj


@pytest.mark.parametrize("width_bits", [32, 64, 128])
@pytest.mark.parametrize(("begun_bytes", "end_bytes"), [(2 * 1024**2, 8 * 1024**2), (4096, 1024)])
def test_begun_inside_the_table_the_square_root_meets_its_ends(width_bits: int, begun_bytes: int, end_bytes: int):
    begun = float(sram_pj_per_byte(float(begun_bytes), float(width_bits)))
    cacti_pj = cacti_pj_per_byte()[end_bytes, width_bits]
    assert begun * math.sqrt(end_bytes / begun_bytes) == pytest.approx(cacti_pj, rel=0.07)


@given(capacities, widths)
@patient
def test_jax_and_numpy_compute_the_same_energy(capacity_bytes: int, width_bits: float):
    in_jax = sram_pj_per_byte(jnp.float32(capacity_bytes), jnp.float32(width_bits), jnp)
    assert float(in_jax) == pytest.approx(float(sram_pj_per_byte(float(capacity_bytes), width_bits)), rel=1e-4)


def test_energy_is_elementwise_over_arrays():
    capacity_bytes, width_bits = np.array([[2048.0, 4096.0]]), np.array([[8.0], [64.0], [128.0]])
    grid = sram_pj_per_byte(*np.broadcast_arrays(capacity_bytes, width_bits))
    assert grid.shape == (3, 2)
    assert grid[1, 1] == pytest.approx(float(sram_pj_per_byte(4096.0, 64.0)))


def test_a_word_costs_by_its_bits():
    assert word_pj(2048.0, 32.0, 32.0) == 4 * sram_pj_per_byte(2048.0, 32.0)
    assert word_pj(2048.0, 4.0, 32.0) == sram_pj_per_byte(2048.0, 32.0) / 2


@pytest.mark.parametrize(
    ("word_bits", "words_per_cycle", "width_bits"),
    [
        (8, (4.0,), 32),
        (8, (64.0,), 128),  # the table ends at 128 bits
        (8, (None,), 8),  # nothing is said: one word
        (8, (0.5,), 8),  # at least a word
        (4, (None,), 8),  # the table begins at 8 bits
        (16, (None, 2.0, 4.0), 64),  # of two rates the larger one
    ],
)
def test_a_row_is_as_wide_as_what_a_memory_moves_in_a_cycle(
    word_bits: int, words_per_cycle: tuple[float | None, ...], width_bits: float
):
    assert row_bits(word_bits, *words_per_cycle) == width_bits


def test_hardware_search_can_differentiate_the_energy_of_a_word():
    assert jax.grad(lambda size: word_pj(size, 32.0, 32.0, jnp))(4096.0) > 0
    assert jax.grad(lambda size: word_pj(size, 8.0, 128.0, jnp))(262144.0) > 0


def test_programs_of_32_and_of_64_bits_do_not_share_their_constants():
    def energy(capacity_bytes: jax.Array) -> jax.Array:
        return word_pj(capacity_bytes, 8.0, 128.0, jnp)

    single = jax.jit(energy)(jnp.asarray(65536.0))
    with jax.enable_x64(True):
        where = jnp.asarray(65536.0)
        double, slope = jax.jit(lambda size: jax.jvp(energy, (size,), (jnp.ones_like(size),)))(where)
    assert (single.dtype, double.dtype, slope.dtype) == (jnp.float32, jnp.float64, jnp.float64)
    assert float(double) == pytest.approx(float(word_pj(65536.0, 8.0, 128.0)), rel=1e-12)


def test_the_weights_file_states_its_own_held_out_error():
    stored = json.loads(resources.files("fadiff.hardware").joinpath("energy_weights.json").read_text())
    held_out = stored["held_out"]
    points = [(capacity_bytes, width_bits) for capacity_bytes, width_bits in held_out["rows"]]
    relative = relative_errors(points)
    assert len(points) == round(0.2 * stored["table"]["rows"])
    assert np.median(relative) == pytest.approx(held_out["median_relative_error"], abs=1e-4)
    assert np.quantile(relative, 0.9) == pytest.approx(held_out["p90_relative_error"], abs=1e-4)


def test_on_rows_it_never_saw_the_network_is_mostly_within_a_tenth_of_cacti():
    stored = json.loads(resources.files("fadiff.hardware").joinpath("energy_weights.json").read_text())
    assert stored["held_out"]["median_relative_error"] < 0.04
    assert stored["held_out"]["p90_relative_error"] < 0.1
    assert stored["held_out"]["rms_log_error"] < 0.08


@pytest.mark.parametrize(
    ("network_pj", "table_pj"),
    [
        (word_pj(524288.0, 8.0, 128.0), 3.428987),
        (word_pj(2048.0, 32.0, 32.0), 1.661825),
        (word_pj(8192.0, 8.0, 128.0), 0.448258),
        (load_machine("gemmini-small").memories[2].read_pj, 1.153116),
    ],
    ids=["large scratchpad", "large accumulator", "small scratchpad", "small accumulator"],
)
def test_the_published_configurations_cost_nearly_what_the_table_says(network_pj: float, table_pj: float):
    assert network_pj == pytest.approx(table_pj, rel=0.05)
