"""Hardware files in the short keys of the Gemmini template, and the hardware of schedule files of edition 1."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fadiff.errors import FadiffError
from fadiff.files import FileError, validate
from fadiff.hardware import (
    Axis,
    Bits,
    GemminiModel,
    Machine,
    MachineFile,
    Memory,
    load_machine,
    machine_to_json,
    read_machine,
    word_pj,
)
from fadiff.hardware.nodes_file import EXTRAPOLATED

# Examples overwrite one file in the test's folder, and how long each takes says nothing.
patient = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

SMALLEST = "name: mine\nrows: 8\ncols: 4\nl1: 2 KB\nl2: 16 KB\n"
COMPLETE: dict[str, Any] = {
    "name": "gemmini-large",
    "rows": 32,
    "cols": 32,
    "l1_bytes": 65536,
    "l2_bytes": 524288,
    "spatial": {"rows": ["C"], "cols": ["K", "G"]},
    "words_per_cycle": {"L3": 8, "L2": 64, "L1_per_column": 2},
    "pj": {"mac": 0.5608, "L0": 0.48746, "L1": 1.661825, "L2": 3.428987, "L3": 100},
    "spill_words": 4,
    "double_buffered": False,
    "online_softmax": True,
    "overlap": "full",
}
GEMMINI_LARGE = """
{"name": "gemmini-large", "bits": {"W": 8, "I": 8, "O": 8, "sums": 32, "spilled": 32}, "mac_pj": 0.5608,
 "overlap": "full", "online_softmax": true,
 "nodes": [{"memory": "DRAM", "keeps": "WIO", "word_bits": 8, "words_per_cycle": 8, "read_pj": 100, "write_pj": 100},
           {"memory": "scratchpad", "keeps": "WI", "fuses": true, "bytes": 524288, "word_bits": 8,
            "words_per_cycle": 64, "read_pj": 3.428987, "write_pj": 3.428987},
           {"axis": "cols", "size": 32, "dims": "KG"},
           {"memory": "accumulator", "keeps": "O", "bytes": 2048, "word_bits": 32,
            "words_per_cycle": 2, "read_pj": 1.661825, "write_pj": 1.661825},
           {"axis": "rows", "size": 32, "dims": "C"},
           {"memory": "registers", "keeps": "W", "bytes": 1, "word_bits": 8, "read_pj": 0.48746, "write_pj": 0.48746}]}
"""


def read(folder: Path, text: str, name: str = "mine.yaml") -> MachineFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_machine(str(path))


def load(folder: Path, text: str) -> Machine:
    return read(folder, text).machine


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in COMPLETE.items() if key not in keys}


def with_memory(machine: Machine, name: str, **changes: Any) -> Machine:
    nodes = tuple(replace(node, **changes) if node.name == name else node for node in machine.nodes)
    return replace(machine, nodes=nodes)


# --- what the template stands for ---


def test_the_hardware_of_an_edition_1_schedule_is_this_list_of_nodes():
    machine = validate(GemminiModel, COMPLETE, "object").value()
    assert machine_to_json(machine) == json.loads(GEMMINI_LARGE)
    assert json.dumps(machine_to_json(machine)) == json.dumps(json.loads(GEMMINI_LARGE))


@pytest.mark.parametrize("name", ["mine.json", "mine.yaml", "mine.yml", "MINE.JSON"])
def test_the_hardware_object_of_an_edition_1_schedule_is_a_hardware_file(tmp_path: Path, name: str):
    file = read(tmp_path, json.dumps(COMPLETE), name)
    assert file.machine == validate(GemminiModel, COMPLETE, "object").value()
    assert file.filled == {}


def test_in_an_edition_1_schedule_only_four_keys_of_the_hardware_may_be_left_out():
    optional = {"spill_words", "double_buffered", "online_softmax", "overlap"}
    for key in COMPLETE:
        if key in optional:
            validate(GemminiModel, without(key), "object")
        else:
            with pytest.raises(FileError, match=f"^object: {key}: this key is missing: add it$"):
                validate(GemminiModel, without(key), "object")
    machine = validate(GemminiModel, without(*optional), "object").value()
    assert machine == replace(validate(GemminiModel, COMPLETE, "object").value(), online_softmax=False)


def test_a_short_file_takes_the_defaults(tmp_path: Path):
    accumulator_pj = round(float(word_pj(512.0, 32.0, 32.0)), 6)
    scratchpad_pj = round(float(word_pj(16384.0, 8.0, 32.0)), 6)
    file = read(tmp_path, SMALLEST)
    assert file.machine == Machine(
        name="mine",
        nodes=(
            Memory("DRAM", "WIO", 100, 100, words_per_cycle=8),
            Memory("scratchpad", "WI", scratchpad_pj, scratchpad_pj, bytes=16384, words_per_cycle=8, fuses=True),
            Axis("cols", 4, "KG"),
            Memory("accumulator", "O", accumulator_pj, accumulator_pj, bytes=512, word_bits=32, words_per_cycle=2),
            Axis("rows", 8, "C"),
            Memory("registers", "W", 0.48746, 0.48746, bytes=1),
        ),
        mac_pj=0.5608,
        bits=Bits(W=8, I=8, O=8, sums=32, spilled=32),
        overlap="full",
        online_softmax=False,
    )
    assert file.filled == {
        "mac_pj": "as on Gemmini",
        "DRAM.read_pj": "12.5 pJ a bit",
        "DRAM.write_pj": "12.5 pJ a bit",
        "scratchpad.read_pj": "from the capacity",
        "scratchpad.write_pj": "from the capacity",
        "accumulator.read_pj": EXTRAPOLATED,
        "accumulator.write_pj": EXTRAPOLATED,
        "registers.read_pj": "as on Gemmini",
        "registers.write_pj": "as on Gemmini",
    }


def test_energies_of_the_built_in_gemminis_are_the_same_on_every_computer():
    found: dict[str, tuple[float, float]] = {}
    for name in ("gemmini-default", "gemmini-large", "gemmini-small"):
        _, scratchpad, accumulator, _ = load_machine(name).memories
        found[name] = (accumulator.read_pj, scratchpad.read_pj)
    assert found == {
        "gemmini-default": (2.324103, 2.572212),
        "gemmini-large": (1.638759, 3.556703),
        "gemmini-small": (1.136551, 0.455058),
    }


@pytest.mark.parametrize(
    ("name", "array", "l1_kb", "l2_kb", "online_softmax"),
    [
        ("gemmini-large", 32, 64, 512, True),
        ("gemmini-small", 16, 8, 8, True),
        ("gemmini-default", 16, 64, 256, False),
    ],
)
def test_a_built_in_gemmini_is_as_published(name: str, array: int, l1_kb: int, l2_kb: int, online_softmax: bool):
    machine = load_machine(name)
    dram, scratchpad, accumulator, registers = machine.memories
    assert [(axis.name, axis.size, axis.dims) for axis in machine.axes] == [("cols", array, "KG"), ("rows", array, "C")]
    assert (scratchpad.bytes, accumulator.bytes, registers.bytes) == (l2_kb * 1024, l1_kb * 1024 // array, 1)
    assert (dram.words_per_cycle, scratchpad.words_per_cycle, accumulator.words_per_cycle) == (8, 2 * array, 2)
    assert machine.fused_in() is scratchpad
    assert machine.online_softmax is online_softmax


def test_energies_rates_and_dims_may_be_given_in_part(tmp_path: Path):
    short = load(tmp_path, SMALLEST)
    part = read(tmp_path, SMALLEST + "pj: {L2: 1.25}\nwords_per_cycle: {L3: 16}\nspatial: {rows: [C, R, S]}\n")
    expected = with_memory(short, "scratchpad", read_pj=1.25, write_pj=1.25)
    expected = with_memory(expected, "DRAM", words_per_cycle=16.0)
    assert part.machine == with_memory(expected, "rows", dims="CRS")
    assert "scratchpad.read_pj" not in part.filled


def test_double_buffers_halve_scratchpad_and_accumulator_but_not_the_registers(tmp_path: Path):
    machine = load(tmp_path, SMALLEST + "double_buffered: true\n")
    assert [memory.usable_bytes for memory in machine.memories[1:]] == [8192, 256, 1]


@pytest.mark.parametrize(("words", "bits"), [(4, 32), (2, 16), (0, 0)])
def test_spilled_words_are_bytes_of_a_sum_in_dram(tmp_path: Path, words: int, bits: int):
    assert load(tmp_path, SMALLEST + f"spill_words: {words}\n").bits.spilled == bits


def test_columns_share_the_accumulator_evenly_and_what_is_left_over_is_lost(tmp_path: Path):
    machine = load(tmp_path, SMALLEST.replace("l1: 2 KB", "l1_bytes: 2051"))
    assert machine.memories[2].bytes == 512


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        ("512 B", 512),
        ("64 KB", 65536),
        ("64KB", 65536),
        ("64 kB", 65536),
        ("64 KiB", 65536),
        ("1 MB", 1048576),
        ("1 MiB", 1048576),
        ("1 GB", 1073741824),
        ("0.5 MB", 524288),
        ("1.5 KB", 1536),
    ],
)
def test_a_kilobyte_is_1024_bytes_in_every_spelling(tmp_path: Path, written: str, size_bytes: int):
    assert load(tmp_path, SMALLEST.replace("16 KB", written)).memories[1].bytes == size_bytes


def test_capacities_may_be_plain_bytes(tmp_path: Path):
    text = SMALLEST.replace("l1: 2 KB", "l1_bytes: 2048").replace("l2: 16 KB", "l2_bytes: 16384")
    assert load(tmp_path, text) == load(tmp_path, SMALLEST)


# --- what goes wrong is said in one sentence ---


CAPACITY_REMEDY = "write a capacity as a number and a unit (B, KB, KiB, MB, MiB, GB or GiB), such as 64 KB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALLEST + "l1_bytes: 2048\n", "l1: l1_bytes is given too: keep one of the two"),
        (SMALLEST.replace("l2: 16 KB\n", ""), "l2: this key is missing: add it, such as l2: 64 KB"),
        (SMALLEST.replace("rows: 8\n", ""), "rows: this key is missing: add it"),
        (SMALLEST + "l3: 1 MB\n", "l3: this key is unknown: remove it or correct its spelling"),
        (SMALLEST + "pj: {L4: 1}\n", "pj.L4: it cannot be described, or has another name: remove it, and see the"),
        (SMALLEST + "rate: 8 GB/s\n", "DRAM: rate is 8 GB/s, which takes a clock to be words per cycle"),
        (
            SMALLEST + "rate: 8 GB/s\nclock: 1 GHz\nwords_per_cycle: {L3: 8}\n",
            "rate: words_per_cycle.L3 is given too: keep one of the two",
        ),
        (SMALLEST.replace("16 KB", "16 kilobytes"), f"l2: {CAPACITY_REMEDY} (it is '16 kilobytes')"),
        (SMALLEST.replace("16 KB", "16 Kb"), f"l2: {CAPACITY_REMEDY} (it is '16 Kb')"),
        (SMALLEST.replace("16 KB", "16"), f"l2: {CAPACITY_REMEDY} (it is 16)"),
        (SMALLEST.replace("16 KB", "[16, KB]"), f"l2: {CAPACITY_REMEDY} (it is [16, 'KB'])"),
        (SMALLEST.replace("16 KB", "0.3 KB"), "l2: write a capacity that comes to whole bytes"),
        (SMALLEST.replace("16 KB", "-16 KB"), "l2: input should be greater than 0 (it is -16384)"),
        (SMALLEST.replace("16 KB", "0 KB"), "l2: input should be greater than 0 (it is 0)"),
        (SMALLEST.replace("l2: 16 KB", "l2_bytes: -5"), "l2_bytes: input should be greater than 0 (it is -5)"),
        (SMALLEST.replace("l2: 16 KB", "l2_bytes: 16 KB"), "l2_bytes: input should be a valid integer"),
        (SMALLEST.replace("2 KB", "3 B"), "l1: 3 bytes for 4 columns: each column needs room for a sum"),
        (
            SMALLEST.replace("2 KB", "8 B"),
            "accumulator has 2 bytes, and one value of each tensor it keeps (O) takes 32",
        ),
        (SMALLEST.replace("rows: 8", "rows: 0"), "rows: input should be greater than 0 (it is 0)"),
        (SMALLEST.replace("rows: 8", "rows: 8.5"), "rows: input should be a valid integer"),
        (SMALLEST.replace("rows: 8", "rows: yes"), "rows: input should be a valid integer (it is True)"),
        (SMALLEST.replace("rows: 8", "rows: 9999999999"), "rows: input should be less than or equal to 1048576"),
        (SMALLEST.replace("name: mine", "name: ''"), "name: string should have at least 1 character (it is '')"),
        (SMALLEST + "spatial: {rows: [K]}\n", "spatial.rows.0: input should be 'C', 'R' or 'S' (it is 'K')"),
        (SMALLEST + "spatial: {cols: [K, K]}\n", "spatial.cols: name each dim once (it is ['K', 'K'])"),
        (SMALLEST + "overlap: half\n", "overlap: input should be 'full' or 'none' (it is 'half')"),
        (SMALLEST + "pj: {mac: -1}\n", "pj.mac: input should be greater than or equal to 0 (it is -1)"),
        (SMALLEST + "pj: {mac: .nan}\n", "pj.mac: input should be a finite number (it is nan)"),
        (SMALLEST + "words_per_cycle: {L3: 0}\n", "words_per_cycle.L3: input should be greater than 0 (it is 0)"),
        (SMALLEST + "online_softmax: 1\n", "online_softmax: input should be a valid boolean (it is 1)"),
        (SMALLEST + "rows: 9\n", "line 6, column 1: the YAML is not valid (key 'rows' is given twice)"),
        (SMALLEST + "pj:\n\tmac: 1\n", "indent with spaces, not tabs"),
        (json.dumps(COMPLETE)[:-30], "was the file cut short?"),
        ("", "the file is empty"),
        ("- rows: 8\n", "the top of the file must be a mapping of keys to values"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence_with_file_place_and_remedy(tmp_path: Path, text: str, message: str):
    with pytest.raises(FileError) as refusal:
        load(tmp_path, text)
    told = str(refusal.value)
    assert told.startswith(f"{tmp_path / 'mine.yaml'}: ")
    assert message in told
    assert "\n" not in told


# --- nothing else ever comes out ---


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("64 KB"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from([*COMPLETE, "l1", "l2", "other"])


@given(changes=st.dictionaries(keys, json_values, max_size=4), removed=st.sets(keys, max_size=3), as_yaml=st.booleans())
@patient
def test_any_change_to_a_good_file_loads_or_is_refused_kindly(
    tmp_path: Path, changes: dict[str, Any], removed: set[str], as_yaml: bool
):
    changed = {**without(*removed), **changes}
    text = yaml.safe_dump(changed) if as_yaml else json.dumps(changed)
    told = ""
    try:
        load(tmp_path, text)
    except FadiffError as refusal:
        told = str(refusal)
    assert "\n" not in told


@given(rows=st.integers(1, 2**20), cols=st.integers(1, 2**20), l1=st.integers(1, 2**40), l2=st.integers(1, 2**40))
@patient
def test_any_numbers_within_their_bounds_load_or_are_refused_kindly(
    tmp_path: Path, rows: int, cols: int, l1: int, l2: int
):
    told = ""
    try:
        load(tmp_path, f"name: any\nrows: {rows}\ncols: {cols}\nl1_bytes: {l1}\nl2_bytes: {l2}\n")
    except FadiffError as refusal:
        told = str(refusal)
    assert "\n" not in told


@pytest.mark.parametrize("digits", ["1" + "0" * 400, "0x" + "f" * 5000, "1e400", "9" * 5000])
@pytest.mark.parametrize("line", ["rows: {}", "l2_bytes: {}", "pj: {{mac: {}}}", "l1: {} KB", "spill_words: {}"])
def test_absurd_numbers_are_refused_kindly(tmp_path: Path, line: str, digits: str):
    key = line.split(":")[0]
    kept = [kept for kept in SMALLEST.splitlines() if kept.split(":")[0] != key]
    with pytest.raises(FadiffError):
        load(tmp_path, "\n".join([*kept, line.format(digits)]))
