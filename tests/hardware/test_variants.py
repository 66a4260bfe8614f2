"""Variants of machines: a file with some values set."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.errors import FadiffError
from fadiff.hardware import load_machine, word_pj
from fadiff.hardware.variants import read_variant


def test_what_is_set_to_what_it_is_changes_the_name_alone():
    same = read_variant("gemmini-large", {"scratchpad.bytes": "512 KB", "cols.size": 32}).machine
    assert same.name == "gemmini-large:scratchpad.bytes=512KB,cols.size=32"
    assert replace(same, name="gemmini-large") == load_machine("gemmini-large")


@given(st.integers(1, 2048))
def test_a_key_of_the_file_and_a_key_of_its_node_say_the_same(kilobytes: int):
    size = f"{kilobytes} KB"
    by_file = read_variant("gemmini-large", {"l2": size}).machine
    by_node = read_variant("gemmini-large", {"scratchpad.bytes": size}).machine
    assert by_file.nodes == by_node.nodes


def test_energies_that_the_file_leaves_out_follow_the_capacity():
    buffer = read_variant("simba", {"global_buffer.bytes": "16 KB"}).machine.nodes[1]
    assert buffer.bytes == 16384
    assert buffer.read_pj == pytest.approx(float(word_pj(16384.0, 8.0, 512.0)), abs=1e-6)
    register = read_variant("simba", {"weight_register.bytes": 4}).machine.nodes[-1]
    assert (register.bytes, register.read_pj) == (4, 0.48746), "an energy that the file states stays"


def test_keys_in_keys_are_set():
    assert read_variant("simba", {"bits.W": 4, "clock": "500 MHz"}).machine.bits.W == 4
    assert read_variant("gemmini-small", {"words_per_cycle.L3": 16.0}).machine.nodes[0].words_per_cycle == 16


def test_a_file_of_ones_own_has_variants(tmp_path: Path):
    (tmp_path / "chip.yaml").write_text("name: chip\nrows: 8\ncols: 8\nl1: 4 KB\nl2: 16 KB\n")
    wider = read_variant(str(tmp_path / "chip.yaml"), {"cols": 16}).machine
    assert wider.name == "chip:cols=16"
    assert wider.peak_macs == 128


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"scratchpd.bytes": 1}, r"no 'scratchpd.bytes' to set \(did you mean scratchpad.bytes\?\)"),
        ({"scratchpad": 1}, r"no 'scratchpad' to set \(did you mean scratchpad.bytes\?\)"),
        ({"volume": 1}, r"no 'volume' to set: .* the nodes are DRAM, scratchpad"),
        ({"scratchpad.byte": 1}, r"scratchpad.byte=1: nodes.1.byte: this key is unknown"),
        ({"scratchpad.bytes": "1 parsec"}, r"nodes.1.bytes: write a capacity as a number and a unit"),
        ({"scratchpad.bytes": 0}, r"nodes.1.bytes: input should be greater than 0"),
        ({"l1": "1 B", "cols.size": 4}, r"1 bytes for 32 columns: each column needs room"),
    ],
)
def test_what_cannot_be_set_is_told(values: dict[str, object], wrong: str):
    with pytest.raises(FadiffError, match=wrong):
        read_variant("gemmini-large", values)


def test_a_base_that_is_not_there_is_told():
    with pytest.raises(FadiffError, match=r"did you mean gemmini-large\?"):
        read_variant("gemini-large", {"l2": "1 KB"})


SPACE = """
name: sketch
rows: {from: 2, to: 16, powers_of: 2}
cols: {from: 2, to: 16, powers_of: 2}
l1: 4 KB
l2: {from: 1 KB, to: 64 KB}
"""


@pytest.fixture
def space(tmp_path: Path) -> str:
    (tmp_path / "space.yaml").write_text(SPACE)
    return str(tmp_path / "space.yaml")


def test_a_space_with_all_its_numbers_set_is_a_machine(space: str):
    short = read_variant(space, {"rows": 8, "cols": 4, "l2": "16 KB"}).machine
    assert (short.peak_macs, short.fused_in().bytes, short.name) == (32, 16384, "sketch:rows=8,cols=4,l2=16KB")
    by_name = read_variant(space, {"rows.size": 8, "cols.size": 4, "scratchpad.bytes": 16384}).machine
    assert by_name.nodes == short.nodes


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"rows": 8, "l2": "16 KB"}, r"space.yaml: cols.size would stay free: set all free numbers of a space"),
        ({"rows": 8, "cols": 4, "l22": "16 KB"}, r"'l22' is none of the space's free numbers: use scratchpad.bytes"),
        ({"row.size": 8}, r"'row.size' is none of the space's free numbers \(did you mean rows.size\?\)"),
        ({"rows": 8, "rows.size": 8}, r"rows.size is set twice: set it once"),
        ({"rows": 32}, r"rows is 32: the space has 2 to 16 lanes"),
        ({"rows": 2.5}, r"rows is 2.5: the space has 2 to 16 lanes"),
        ({"l2": "much"}, r"l2 is 'much': write it as the range of the space is written"),
    ],
)
def test_what_is_wrong_with_the_values_of_a_space_is_told(space: str, values: dict[str, object], wrong: str):
    with pytest.raises(FadiffError, match=wrong):
        read_variant(space, values)
