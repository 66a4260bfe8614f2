from dataclasses import replace
from math import inf

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.hardware import Axis, Bits, Machine, Memory, Vector, builtin_machines, load_machine, pack_machine

MACHINE = Machine(
    name="mine",
    nodes=(
        Memory("DRAM", "WIO", 100, 90, words_per_cycle=8, word_bits=16),
        Memory("sram", "WI", 2, 3, bytes=4097, read_words_per_cycle=16, double_buffered=True),
        Axis("k", 16, "KG"),
        Memory("sums", "O", 1, 1.5, bytes=64, word_bits=32, write_words_per_cycle=2),
        Axis("c", 4, "C"),
    ),
    mac_pj=0.25,
    bits=Bits(W=4, I=8, O=12, sums=24, spilled=20),
    overlap="none",
    vector=Vector(lanes=16, pj=0.75),
)


def test_numbers_of_a_machine_stand_in_the_order_of_its_nodes():
    arrays = pack_machine(MACHINE)
    assert {name: value.tolist() for name, value in arrays._asdict().items()} == {
        "lanes": [16, 4],
        "bytes": [inf, 4097, 64],
        "usable_bytes": [inf, 2048, 64],
        "word_bits": [16, 8, 32],
        "words_per_cycle": [8, inf, inf],
        "read_words_per_cycle": [inf, 16, inf],
        "write_words_per_cycle": [inf, inf, 2],
        "read_pj": [100, 2, 1],
        "write_pj": [90, 3, 1.5],
        "mac_pj": 0.25,
        "vector_lanes": 16,
        "vector_pj": 0.75,
        "bits_w": 4,
        "bits_i": 8,
        "bits_o": 12,
        "bits_sums": 24,
        "bits_spilled": 20,
        "serial": 1,
    }
    assert all(value.dtype == np.float64 for value in arrays)


def test_transfers_that_hide_behind_work_are_not_serial():
    assert pack_machine(replace(MACHINE, overlap="full")).serial == 0


def test_operators_of_a_machine_without_a_vector_unit_take_no_time_and_no_energy():
    arrays = pack_machine(replace(MACHINE, vector=None))
    assert (arrays.vector_lanes, arrays.vector_pj) == (inf, 0)


def test_gradients_reach_every_number():
    slope = jax.grad(lambda arrays: sum(jnp.sum(jnp.where(jnp.isinf(leaf), 0.0, leaf)) for leaf in arrays))
    assert all(
        np.all(leaf == np.isfinite(value))
        for leaf, value in zip(slope(pack_machine(MACHINE)), pack_machine(MACHINE), strict=True)
    )


def test_machines_of_one_structure_have_arrays_of_one_shape():
    large, small = (pack_machine(load_machine(name)) for name in ("gemmini-large", "gemmini-small"))
    assert [leaf.shape for leaf in large] == [leaf.shape for leaf in small]
    assert load_machine("gemmini-large").structure == load_machine("gemmini-small").structure


def test_every_machine_of_the_catalog_can_be_packed():
    for name in builtin_machines():
        machine = load_machine(name)
        arrays = pack_machine(machine)
        assert (len(arrays.lanes), len(arrays.read_pj)) == (len(machine.axes), len(machine.memories))
