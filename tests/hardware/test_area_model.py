"""Area and leakage of SRAMs by a network, and of machines by their parts."""

import csv
import json
import math
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff.hardware import (
    Axis,
    Bits,
    Machine,
    Memory,
    Vector,
    area_by_node_mm2,
    builtin_machines,
    leakage_mw,
    load_machine,
    machine_area,
    pack_machine,
    sram_mm2,
)
from fadiff.hardware.area_model import area, memory_mm2, sram_leakage_mw
from fadiff.hardware.sram_network import CAPACITY_BYTES, WIDTH_BITS

TABLE = Path(__file__).parents[2] / "data" / "cacti_sram_epa.csv"
KB = 1024.0

# The first example of a test waits for compilation.
patient = settings(deadline=None)
slope_by_capacity = jax.jit(jax.grad(lambda capacity, width_bits: memory_mm2(capacity, width_bits, jnp)))

any_capacities = st.integers(*CAPACITY_BYTES) | st.integers(1, 2**40)
widths = st.floats(*WIDTH_BITS)

MACHINE = Machine(
    name="mine",
    nodes=(
        Memory("DRAM", "WIO", 100, 90, words_per_cycle=8),
        Memory("sram", "WI", 2, 3, bytes=4096, words_per_cycle=4),
        Axis("k", 16, "KG"),
        Memory("sums", "O", 1, 1.5, bytes=2048, word_bits=32),
        Axis("c", 4, "C"),
        Memory("register", "W", 0.1, 0.1, bytes=2),
    ),
    mac_pj=0.25,
    bits=Bits(W=4, I=8, O=8, sums=24),
)


def cacti(*columns: str) -> dict[tuple[int, int], float]:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        return {
            (int(row["capacity_bytes"]), int(row["width_bits"])): sum(float(row[column]) for column in columns)
            for row in csv.DictReader(stream)
        }


@pytest.mark.parametrize(
    ("quantity", "network", "columns"),
    [("area", sram_mm2, ["area_mm2"]), ("leakage", sram_leakage_mw, ["leakage_mw", "gate_leakage_mw"])],
)
def test_a_weights_file_states_its_own_held_out_error(quantity: str, network, columns: list[str]):
    stored = json.loads(resources.files("fadiff.hardware").joinpath(f"{quantity}_weights.json").read_text())
    held_out, table = stored["held_out"], cacti(*columns)
    capacity_bytes, width_bits = np.array(held_out["rows"], dtype=np.float64).T
    relative = np.abs(network(capacity_bytes, width_bits) / np.array([table[c, w] for c, w in held_out["rows"]]) - 1)
    assert len(relative) == round(0.2 * stored["table"]["rows"])
    assert np.median(relative) == pytest.approx(held_out["median_relative_error"], abs=1e-4)
    assert np.quantile(relative, 0.9) == pytest.approx(held_out["p90_relative_error"], abs=1e-4)
    assert np.median(relative) < 0.05
    assert np.quantile(relative, 0.9) < 0.1


@given(any_capacities, any_capacities, widths)
@patient
def test_a_larger_memory_takes_more_area(one: int, other: int, width_bits: float):
    small, large = sorted((one, other))
    if small < large:
        assert memory_mm2(float(small), width_bits) < memory_mm2(float(large), width_bits)


@given(any_capacities, widths, widths)
@patient
def test_wider_rows_never_take_less_area(capacity_bytes: int, one: float, other: float):
    narrow, wide = sorted((one, other))
    assert sram_mm2(float(capacity_bytes), narrow) <= sram_mm2(float(capacity_bytes), wide) * (1 + 1e-12)


@given(st.floats(1, 2**30), widths)
@patient
def test_a_gradient_leads_to_smaller_memories_from_everywhere(capacity_bytes: float, width_bits: float):
    slope = float(slope_by_capacity(capacity_bytes, width_bits))
    assert math.isfinite(slope)
    assert slope > 0


def test_above_the_table_area_is_proportional_to_the_capacity_and_below_it_follows_the_square_root():
    assert sram_mm2(32 * KB**2, 64.0) == pytest.approx(4 * sram_mm2(8 * KB**2, 64.0), rel=1e-12)
    assert sram_mm2(256.0, 64.0) == pytest.approx(sram_mm2(KB, 64.0) / 2, rel=1e-12)


def test_begun_inside_the_table_proportion_meets_its_upper_end():
    table = cacti("area_mm2")
    for width_bits in (8, 32, 64, 128):
        begun = 4 * float(sram_mm2(2 * KB**2, float(width_bits)))
        assert begun == pytest.approx(table[8 * 1024**2, width_bits], rel=0.1)


def test_leakage_is_proportional_to_the_capacity_beyond_the_table():
    for edge in map(float, CAPACITY_BYTES):
        beyond = edge / 4 if edge == KB else edge * 4
        assert sram_leakage_mw(beyond, 64.0) == pytest.approx(sram_leakage_mw(edge, 64.0) * beyond / edge, rel=1e-12)


def test_registers_are_made_of_flip_flops_and_larger_memories_of_sram():
    assert memory_mm2(2.0, 8.0) == pytest.approx(2 * 8 * 5e-6)
    assert memory_mm2(512.0, 8.0) == sram_mm2(512.0, 8.0)


def test_the_area_of_a_machine_is_that_of_its_instances():
    mac_mm2 = (3.5 * 4 * 8 + 3.4 * 24) * 1e-6
    assert area_by_node_mm2(MACHINE) == pytest.approx(
        {
            "sram": sram_mm2(4 * KB, 32.0),
            "sums": 16 * sram_mm2(2 * KB, 32.0),
            "register": 64 * 2 * 8 * 5e-6,
            "mac": 64 * mac_mm2,
        }
    )
    assert machine_area(MACHINE).total == pytest.approx(sum(area_by_node_mm2(MACHINE).values()))


def test_a_lane_of_the_vector_unit_counts_as_a_multiplier():
    parts = area_by_node_mm2(replace(MACHINE, vector=Vector(lanes=64, pj=1)))
    assert parts["vector"] == pytest.approx(parts["mac"])


def test_only_srams_leak():
    assert leakage_mw(MACHINE) == pytest.approx(sram_leakage_mw(4 * KB, 32.0) + 16 * sram_leakage_mw(2 * KB, 32.0))


def test_what_is_off_the_chip_takes_no_area_of_it():
    assert machine_area(MACHINE).memories[0] == 0
    assert "DRAM" not in area_by_node_mm2(MACHINE)


@pytest.mark.parametrize("name", builtin_machines())
def test_every_machine_of_the_catalog_has_an_area(name: str):
    assert 0.1 < machine_area(load_machine(name)).total < 1000


def test_jax_computes_the_same_area_and_its_gradient_in_every_size():
    numbers = pack_machine(MACHINE)

    def total(lanes: jax.Array, size_bytes: jax.Array) -> jax.Array:
        sizes = jnp.concatenate([jnp.array([jnp.inf]), size_bytes])
        return area(MACHINE.structure, numbers._replace(lanes=lanes, bytes=sizes), jnp).total

    given_numbers = jnp.asarray(numbers.lanes), jnp.asarray(numbers.bytes[1:])
    value, slopes = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(*given_numbers)
    assert float(value) == pytest.approx(machine_area(MACHINE).total, rel=1e-4)
    assert all(np.all(np.isfinite(slope)) and np.all(slope > 0) for slope in slopes)
