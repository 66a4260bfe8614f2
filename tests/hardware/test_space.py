"""Spaces of machines: what is free, what follows, and what a file may not say."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.files import FileError, parse, validate
from fadiff.hardware import FreeNumber, Memory, Space, load_machine, machine_area, pack_machine, read_space
from fadiff.hardware.gemmini import GemminiFileModel
from fadiff.hardware.space_file import space_of

NODES = """
name: chip
clock: 1 GHz
nodes:
  - {memory: DRAM, keeps: WIO, rate: {from: 4 GB/s, to: 32 GB/s}}
  - {memory: buffer, keeps: WI, fuses: true, bytes: {from: 16 KB, to: 2 MB},
     words_per_cycle: 2 * cols, double_buffered: true}
  - {axis: cols, size: {from: 8, to: 128, powers_of: 2}, dims: KG}
  - {memory: sums, keeps: O, bytes: total / cols, word_bits: 32, words_per_cycle: 2, row_bits: 32}
  - {axis: rows, size: cols, dims: C}
  - {memory: register, keeps: W, bytes: 2, read_pj: 0.1}
numbers:
  total: {from: 4 KB, to: 64 KB, step: 4 KB}
"""
SHORT = """
name: chip
rows: {from: 4, to: 64, powers_of: 2}
cols: {from: 4, to: 64, powers_of: 2}
l1: {from: 4 KB, to: 512 KB}
l2: {from: 16 KB, to: 2 MB}
online_softmax: true
pj: {L3: 200}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "space.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Space:
    return read_space(written(tmp_path_factory.mktemp("space"), NODES))


@pytest.fixture(scope="module")
def gemmini(tmp_path_factory: pytest.TempPathFactory) -> Space:
    return read_space(written(tmp_path_factory.mktemp("space"), SHORT))


def named(space: Space, **values: float) -> list[float]:
    return [values[number.name.replace(".", "_")] for number in space.numbers]


def test_free_numbers_have_names_ranges_and_units(chip: Space):
    assert [(number.name, number.unit, number.low, number.high) for number in chip.numbers] == [
        ("total", "bytes", 4096, 65536),
        ("DRAM.rate", "bytes/s", 4e9, 32e9),
        ("buffer.bytes", "bytes", 16384, 2 * 1024**2),
        ("cols.size", "lanes", 8, 128),
    ]


@pytest.mark.parametrize(
    ("cols", "rate", "size_kb", "total_kb"), [(8, 4, 16, 4), (32, 12.5, 300, 20), (128, 32, 2048, 64)]
)
def test_a_machine_of_a_space_is_that_of_a_file_with_the_numbers_in_it(
    chip: Space, tmp_path: Path, cols: int, rate: float, size_kb: int, total_kb: int
):
    plain = f"""
name: chip
clock: 1 GHz
nodes:
  - {{memory: DRAM, keeps: WIO, rate: {rate} GB/s}}
  - {{memory: buffer, keeps: WI, fuses: true, bytes: {size_kb} KB, words_per_cycle: {2 * cols}, double_buffered: true}}
  - {{axis: cols, size: {cols}, dims: KG}}
  - {{memory: sums, keeps: O, bytes: {total_kb * 1024 // cols}, word_bits: 32, words_per_cycle: 2, row_bits: 32}}
  - {{axis: rows, size: {cols}, dims: C}}
  - {{memory: register, keeps: W, bytes: 2, read_pj: 0.1}}
"""
    values = named(chip, total=total_kb * 1024, DRAM_rate=rate * 1e9, buffer_bytes=size_kb * 1024, cols_size=cols)
    assert chip.at(values) == load_machine(str(written(tmp_path, plain)))


@given(st.integers(2, 6), st.integers(2, 6), st.integers(4096, 2**19), st.integers(2**14, 2**21))
def test_short_keys_may_have_ranges_too(rows: int, cols: int, l1_bytes: int, l2_bytes: int):
    space = space_of(parse(SHORT, "here"), "here")
    sizes = {"rows": 2**rows, "cols": 2**cols, "l1_bytes": l1_bytes, "l2_bytes": l2_bytes}
    plain = {"name": "chip", "online_softmax": True, "pj": {"L3": 200}, **sizes}
    machine = validate(GemminiFileModel, plain, "here").filled_in()[0]
    values = named(space, l1=l1_bytes, scratchpad_bytes=l2_bytes, cols_size=2**cols, rows_size=2**rows)
    assert space.at(values) == machine


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_arrays_are_those_of_the_machine_but_for_rounding(where: list[float]):
    space = space_of(
        {
            "name": "chip",
            "rows": {"from": 4, "to": 64},
            "cols": {"from": 4, "to": 64},
            "l1": {"from": "64 KB", "to": "512 KB"},
            "l2": {"from": "64 KB", "to": "2 MB"},
        },
        "here",
    )
    values = space.rounded([n.low * (n.high / n.low) ** t for n, t in zip(space.numbers, where, strict=True)])
    arrays, packed = space.arrays(np.log(values)), pack_machine(space.at(values))
    for name, leaf in packed._asdict().items():
        assert np.allclose(np.array(getattr(arrays, name), dtype=np.float64), leaf, rtol=1e-3), name
    assert float(space.area_mm2(np.log(values))) == pytest.approx(machine_area(space.at(values)).total, rel=1e-3)


def test_energies_that_a_file_states_stay_and_others_follow_the_size(chip: Space):
    low, high = (chip.at([number.ends[end] for number in chip.numbers]) for end in (0, 1))
    assert low.memories[1].read_pj < high.memories[1].read_pj
    assert low.memories[3].read_pj == high.memories[3].read_pj == 0.1


def test_gradients_of_area_and_energy_reach_every_free_number_that_has_a_share_in_them(chip: Space):
    logs = jnp.log(jnp.array([n.low * 2 for n in chip.numbers], dtype=jnp.float32))
    slope = jax.grad(lambda u: chip.area_mm2(u, jnp))(logs)
    assert np.all(np.isfinite(slope))
    assert slope[1] == 0  # DRAM is not on the chip
    assert slope[0] > 0
    assert slope[2] > 0
    assert slope[3] > 0
    energy = jax.grad(lambda u: chip.arrays(u, jnp).read_pj[1])(logs)
    assert energy[2] > 0
    rate = jax.grad(lambda u: chip.arrays(u, jnp).words_per_cycle[0])(logs)
    assert rate[1] > 0


def test_a_batch_of_machines_has_its_area_in_one_call(chip: Space):
    values = np.array([[number.ends[end] for number in chip.numbers] for end in (0, 1)]).T
    areas = chip.area_mm2(np.log(values))
    each = [float(chip.area_mm2(np.log(column))) for column in values.T]
    assert areas.tolist() == pytest.approx(each)


def test_the_smallest_and_the_largest_machine_are_at_ends_of_the_ranges(gemmini: Space):
    assert machine_area(gemmini.at(gemmini.smallest)).total < machine_area(gemmini.at(gemmini.largest)).total
    for number, low, high in zip(gemmini.numbers, gemmini.smallest, gemmini.largest, strict=True):
        assert {low, high} <= set(number.ends)


@given(st.sampled_from([(2, None), (3, None), (None, 5.0), (None, None)]), st.floats(7, 300), st.booleans())
def test_a_rounded_number_is_the_nearest_that_can_be_built(
    grid: tuple[int | None, float | None], value: float, whole: bool
):
    number = FreeNumber("n", "", 7, 300, whole, *grid)
    found = number.rounded(value)
    assert 7 <= found <= 300
    assert number.rounded(found) == found
    if grid[0]:
        assert found in [grid[0] ** n for n in range(12)]
    elif grid[1]:
        assert (found - 7) % grid[1] == 0
    else:
        assert found == pytest.approx(value, rel=1 / 14)
    above, below = number.next(found, 1), number.next(found, -1)
    assert above is None or above > found
    assert below is None or below < found
    for other in (above, below):
        if other is not None:
            assert abs(np.log(other / value)) >= abs(np.log(found / value)) - 1e-9


def test_next_walks_through_all_values_of_a_number():
    number = FreeNumber("n", "lanes", 8, 128, whole=True, powers_of=2)
    walked = [8.0]
    while (value := number.next(walked[-1], 1)) is not None:
        walked.append(value)
    assert walked == [8, 16, 32, 64, 128]
    assert number.count == 5
    assert FreeNumber("n", "bytes", 4096, 65536, whole=True, step=4096).count == 16


def buffer(text: str) -> str:
    return NODES.replace("bytes: {from: 16 KB, to: 2 MB}", text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            buffer("bytes: {from: 2 MB, to: 16 KB}"),
            "buffer.bytes: the range goes from 2 MB down to 16 KB: turn it round",
        ),
        (buffer("bytes: {from: 2 MB, to: 2 MB}"), "buffer.bytes: the range from 2 MB to 2 MB is empty: write 2 MB"),
        (buffer("bytes: {from: 2 MB}"), "buffer.bytes: to: this key is missing: add it"),
        (buffer("bytes: {from: 2 MB, to: 4 MB, by: 2}"), "buffer.bytes: by: this key is unknown"),
        (
            buffer("bytes: {from: 0, to: 4 MB}"),
            "buffer.bytes: 0 is no positive number of bytes: write for example 64 KB",
        ),
        (buffer("bytes: {from: much, to: 4 MB}"), "buffer.bytes: 'much' is no positive number of bytes"),
        (
            buffer("bytes: {from: 3 KB, to: 3.5 KB, powers_of: 2}"),
            "buffer.bytes: no power of 2 is between 3 KB and 3.5 KB: widen the range",
        ),
        (
            buffer("bytes: {from: 3 KB, to: 9 KB, powers_of: 2, step: 1 KB}"),
            "buffer.bytes: it has powers_of and step: keep one of the two",
        ),
        (
            buffer("bytes: 2 * summs"),
            "buffer.bytes: '2 * summs' refers to 'summs', which is nothing (did you mean sums?): use total, DRAM",
        ),
        (buffer("bytes: 2 + cols"), "buffer.bytes: '2 + cols' is no product: tie it with * and / alone"),
        (
            buffer("bytes: {from: 3 KB, to: 9 KB, step: 7 KB}"),
            "buffer.bytes: no step of 7 KB from 3 KB is within 9 KB: make it smaller",
        ),
        (NODES.replace("total / cols", "2 KB"), "total: nothing is tied to it: tie a key of a node to it"),
        (NODES.replace("memory: sums", "memory: buffer"), "there are two nodes named 'buffer': rename one"),
        (NODES.replace("dims: C", "dims: {from: 1, to: 2}"), "rows.dims: only size, bytes, words_per_cycle"),
        (buffer("bytes: 2 * DRAM"), "buffer.bytes: '2 * DRAM' refers to DRAM.bytes, which the file does not state"),
        (
            buffer("bytes: 2 * sums").replace("total / cols", "buffer / 2"),
            "buffer.bytes: ties go round, buffer.bytes to sums.bytes to buffer.bytes: give one of them a number",
        ),
        (NODES.replace("clock: 1 GHz\n", ""), "DRAM: rate takes a clock to be words per cycle: add one"),
        (NODES.replace("from: 4 KB", "from: 16 B").replace(", step: 4 KB", ""), "one value of each tensor it keeps"),
        (NODES.replace("keeps: WIO", "keeps: WI"), "DRAM, the first memory, keeps 'WI'"),
        ("name: one\nrows: 8\ncols: 8\nl1: 8 KB\nl2: 16 KB\n", "this is one machine, none of its numbers is free"),
        ("", "the file is empty: is this the right file"),
        ("- 8", "the top of the file must be a mapping of keys to values"),
        (SHORT.replace("from: 4,", "form: 4,", 1), "rows: form: this key is unknown"),
        (SHORT.replace("L3: 200", "L3: {from: 100, to: 200}"), "pj.L3: only rows, cols, l1, l2, l1_bytes,"),
        (NODES.replace("1 GHz", "{from: 1 GHz, to: 2 GHz}"), "clock: only keys of nodes may have a range"),
        (
            SHORT.replace("rows: {from: 4, to: 64, powers_of: 2}", "rows: {from: 4, to: 64, step: 0.5}"),
            "rows.size: it goes from 4 to 64 in steps of 0.5, and only whole lanes can be built: round them",
        ),
        (NODES.replace("to: 128, powers", "to: 2097152, powers"), "nodes.2.size: input should be less than"),
        (NODES.replace("2 * cols", " * ".join(["cols"] * 400)), "buffer.words_per_cycle: it has no bounds"),
        (NODES.replace("total", "rows"), "numbers.rows: a node has this name, and ties could mean either: rename one"),
    ],
)
def test_what_is_wrong_with_a_space_is_told_with_its_place(tmp_path: Path, text: str, told: str):
    path = written(tmp_path, text)
    with pytest.raises(FileError) as refusal:
        read_space(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_space_is_no_machine(tmp_path: Path):
    with pytest.raises(FileError, match="this is a space of machines, not one machine"):
        load_machine(str(written(tmp_path, NODES)))


def test_a_tie_may_name_a_key_and_divide(tmp_path: Path):
    text = NODES.replace("bytes: total / cols", "bytes: buffer.bytes / 16 / cols")
    space = read_space(written(tmp_path, text.partition("numbers:")[0]))
    values = named(space, DRAM_rate=4e9, buffer_bytes=2**20, cols_size=16)
    sums = space.at(values).nodes[3]
    assert isinstance(sums, Memory)
    assert sums.bytes == 4096


LAW = """
name: chip
nodes:
  - {memory: DRAM, keeps: WIO}
  - {memory: buffer, keeps: WI, bytes: {from: 16 KB, to: 2 MB}, read_pj: {base: 0.5, per_kb: 0.02}}
  - {axis: cols, size: {from: 8, to: 128, powers_of: 2}, dims: KG}
  - {memory: sums, keeps: O, bytes: total / cols, word_bits: 32, read_pj: {per_kb: 0.1}, write_pj: 3}
numbers:
  total: {from: 4 KB, to: 64 KB}
"""


def test_energies_follow_the_law_that_a_file_states(tmp_path: Path):
    space = read_space(written(tmp_path, LAW))
    values = named(space, total=32768, buffer_bytes=65536, cols_size=16)
    machine = space.at(values)
    assert [(node.read_pj, node.write_pj) for node in machine.memories[1:]] == [
        (pytest.approx(0.5 + 0.02 * 64),) * 2,
        (pytest.approx(0.1 * 2), 3),
    ]
    arrays, packed = space.arrays(np.log(values)), pack_machine(machine)
    assert np.asarray(arrays.read_pj) == pytest.approx(packed.read_pj)
    assert np.asarray(arrays.write_pj) == pytest.approx(packed.write_pj)


def test_a_machine_may_state_the_law_too(tmp_path: Path):
    text = LAW.replace("{from: 16 KB, to: 2 MB}", "64 KB").replace("{from: 8, to: 128, powers_of: 2}", "16")
    text = text.replace("total / cols", "2 KB").partition("numbers:")[0]
    buffer, sums = load_machine(str(written(tmp_path, text))).memories[1:]
    assert (buffer.read_pj, buffer.write_pj) == (pytest.approx(1.78), pytest.approx(1.78))
    assert (sums.read_pj, sums.write_pj) == (pytest.approx(0.2), 3)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "{memory: DRAM, keeps: WIO}",
            "{memory: DRAM, keeps: WIO, read_pj: {per_kb: 1}}",
            "it has none: give it a num",
        ),
        ("per_kb: 0.02", "per_kb: -1", "nodes.1.read_pj.per_kb: input should be greater than or equal to 0"),
        ("per_kb: 0.02", "per_mb: 1", "nodes.1.read_pj.per_mb: this key is unknown"),
        ("{base: 0.5, per_kb: 0.02}", "much", "nodes.1.read_pj: input should be a valid number"),
    ],
)
def test_a_law_that_makes_no_sense_is_told_with_its_place(tmp_path: Path, old: str, new: str, told: str):
    with pytest.raises(FileError) as refusal:
        read_space(written(tmp_path, LAW.replace(old, new)))
    assert told in str(refusal.value)
