"""Hardware files that list their nodes, and the complete machine of a schedule file."""

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
    Machine,
    MachineFile,
    MachineModel,
    Memory,
    Vector,
    load_machine,
    machine_to_json,
    read_machine,
    word_pj,
)
from fadiff.hardware.machine import RATES, RESERVED_NAMES

# Examples overwrite one file in the test's folder, and how long each takes says nothing.
patient = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

SHORT = """
name: mine
nodes:
  - {memory: DRAM, keeps: WIO, words_per_cycle: 8}
  - {memory: sram, keeps: WI, fuses: true, bytes: 64 KB, words_per_cycle: 8}
  - {axis: k, size: 16, dims: KG}
  - {memory: sums, keeps: O, bytes: 1 KB, word_bits: 32}
"""
DRAM: dict[str, Any] = {"memory": "DRAM", "keeps": "WIO", "word_bits": 8, "read_pj": 100, "write_pj": 90.5}
SRAM: dict[str, Any] = {"memory": "sram", "keeps": "WI", "bytes": 4096, "word_bits": 8, "read_pj": 2, "write_pj": 3}
SUMS: dict[str, Any] = {"memory": "sums", "keeps": "O", "bytes": 64, "word_bits": 32, "read_pj": 1, "write_pj": 1}
AXIS: dict[str, Any] = {"axis": "k", "size": 16, "dims": "KG"}
COMPLETE: dict[str, Any] = {
    "name": "mine",
    "bits": {"W": 8, "I": 8, "O": 8, "sums": 32, "spilled": 16},
    "mac_pj": 0.25,
    "overlap": "none",
    "online_softmax": True,
    "nodes": [DRAM, SRAM, AXIS, SUMS],
}


def read(folder: Path, text: str, name: str = "mine.yaml") -> MachineFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_machine(str(path))


def complete_with(*nodes: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {**COMPLETE, "nodes": list(nodes) if nodes else COMPLETE["nodes"], **keys}


# --- what may be left out, and what is filled in ---


def test_energies_widths_and_switches_may_be_left_out(tmp_path: Path):
    file = read(tmp_path, SHORT)
    sram_pj = round(float(word_pj(65536.0, 8.0, 64.0)), 6)  # eight bytes a cycle
    sums_pj = round(float(word_pj(1024.0, 32.0, 32.0)), 6)  # rate not limited: rows of one word
    assert file.machine == Machine(
        name="mine",
        nodes=(
            Memory("DRAM", "WIO", 100, 100, words_per_cycle=8),
            Memory("sram", "WI", sram_pj, sram_pj, bytes=65536, words_per_cycle=8, fuses=True),
            Axis("k", 16, "KG"),
            Memory("sums", "O", sums_pj, sums_pj, bytes=1024, word_bits=32),
        ),
        mac_pj=0.5608,
        bits=Bits(W=8, I=8, O=8, sums=32, spilled=32),
    )
    assert file.filled == {
        "mac_pj": "as on Gemmini",
        "DRAM.read_pj": "12.5 pJ a bit",
        "DRAM.write_pj": "12.5 pJ a bit",
        "sram.read_pj": "from the capacity",
        "sram.write_pj": "from the capacity",
        "sums.read_pj": "from the capacity",
        "sums.write_pj": "from the capacity",
    }


def test_the_energy_left_out_is_that_of_one_instance_whatever_stands_above_it(tmp_path: Path):
    one, many = (read(tmp_path, SHORT.replace("size: 16", f"size: {lanes}")).machine for lanes in (1, 64))
    assert one.memories[-1].read_pj == many.memories[-1].read_pj


def test_a_word_of_the_first_memory_costs_by_its_bits(tmp_path: Path):
    wide = read(tmp_path, SHORT.replace("keeps: WIO,", "keeps: WIO, word_bits: 64,")).machine
    assert (wide.memories[0].read_pj, wide.memories[0].write_pj) == (800, 800)


@pytest.mark.parametrize(
    ("stated", "energies", "filled"),
    [
        ("read_pj: 2", (2, 2), {"sram.write_pj": "as reading"}),
        ("write_pj: 3", (3, 3), {"sram.read_pj": "as writing"}),
        ("read_pj: 2, write_pj: 0", (2, 0), {}),
    ],
)
def test_an_energy_of_one_direction_stands_for_both(
    tmp_path: Path, stated: str, energies: tuple[float, float], filled: dict[str, str]
):
    file = read(tmp_path, SHORT.replace("fuses: true,", f"{stated},"))
    assert (file.machine.memories[1].read_pj, file.machine.memories[1].write_pj) == energies
    assert {path: how for path, how in file.filled.items() if path.startswith("sram")} == filled


def test_the_width_of_a_row_may_be_stated(tmp_path: Path):
    file = read(tmp_path, SHORT.replace("fuses: true,", "row_bits: 128,"))
    assert file.machine.memories[1].read_pj == round(float(word_pj(65536.0, 8.0, 128.0)), 6)


def test_a_spilled_sum_is_as_wide_as_a_sum_unless_the_file_says_otherwise(tmp_path: Path):
    assert read(tmp_path, SHORT + "bits: {sums: 24}\n").machine.bits == Bits(8, 8, 8, 24, 24)
    assert read(tmp_path, SHORT + "bits: {W: 4, spilled: 16}\n").machine.bits == Bits(4, 8, 8, 32, 16)


def test_capacities_may_be_plain_bytes(tmp_path: Path):
    assert read(tmp_path, SHORT.replace("64 KB", "65536")) == read(tmp_path, SHORT)


def test_a_file_may_say_what_it_describes_and_where_that_comes_from(tmp_path: Path):
    about = "description: a chip\nsource: its data sheet\nnotes: [first silicon, guessed rates]\n"
    file = read(tmp_path, SHORT + about)
    assert (file.description, file.source, file.notes) == (
        "a chip",
        "its data sheet",
        ("first silicon", "guessed rates"),
    )
    assert file.machine == read(tmp_path, SHORT).machine


# --- the complete machine of a schedule file ---


def test_a_complete_machine_is_written_as_it_was_read():
    machine = validate(MachineModel, COMPLETE, "object").value()
    assert json.dumps(machine_to_json(machine)) == json.dumps(COMPLETE)


def test_the_machine_of_a_schedule_file_is_a_hardware_file(tmp_path: Path):
    file = read(tmp_path, json.dumps(COMPLETE), "mine.json")
    assert file.machine == validate(MachineModel, COMPLETE, "object").value()
    assert file.filled == {}


@pytest.mark.parametrize("key", ["name", "bits", "mac_pj", "nodes"])
def test_a_schedule_file_leaves_no_number_of_its_machine_out(key: str):
    with pytest.raises(FileError, match=f"^object: {key}: this key is missing: add it$"):
        validate(MachineModel, {k: v for k, v in COMPLETE.items() if k != key}, "object")


@pytest.mark.parametrize("key", ["keeps", "word_bits", "read_pj", "write_pj"])
def test_a_schedule_file_leaves_no_number_of_a_memory_out(key: str):
    sram = {k: v for k, v in SRAM.items() if k != key}
    with pytest.raises(FileError, match=rf"^object: nodes\.1\.{key}: this key is missing: add it$"):
        validate(MachineModel, complete_with(DRAM, sram, AXIS, SUMS), "object")


def test_in_a_schedule_file_switches_and_the_width_of_spills_may_be_left_out():
    short = {"name": "mine", "bits": {"W": 8, "I": 8, "O": 8, "sums": 32}, "mac_pj": 0.25, "nodes": COMPLETE["nodes"]}
    machine = validate(MachineModel, short, "object").value()
    assert (machine.bits.spilled, machine.overlap, machine.online_softmax) == (32, "full", False)


names = st.lists(
    st.text(min_size=1, max_size=6).filter(lambda text: text.isprintable() and text not in RESERVED_NAMES), unique=True
)
positive = st.floats(1e-3, 1e6) | st.integers(1, 1000)
energies = st.floats(0, 1e6) | st.integers(0, 100)
shared_rate = st.fixed_dictionaries({}, optional={"words_per_cycle": positive})
own_rates = st.fixed_dictionaries({}, optional={"read_words_per_cycle": positive, "write_words_per_cycle": positive})


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any machine: memories and axes in any order, with room for a value of everything."""

    def memory(name: str, first: bool) -> Memory:
        return Memory(
            name,
            "WIO" if first else draw(st.sampled_from(["W", "I", "O", "WI", "IO", "WIO"])),
            draw(energies),
            draw(energies),
            bytes=None if first else draw(st.integers(64, 2**30)),
            word_bits=draw(st.integers(1, 512)),
            double_buffered=not first and draw(st.booleans()),
            **draw(shared_rate | own_rates),
        )

    def axis(name: str) -> Axis:
        return Axis(name, draw(st.integers(1, 512)), "".join(draw(st.lists(st.sampled_from("GNKCPQRS"), unique=True))))

    first, last, *others = draw(names.filter(lambda found: len(found) >= 2))
    inner = [memory(name, False) if draw(st.booleans()) else axis(name) for name in others]
    sums = Memory(last, "O", draw(energies), draw(energies), bytes=draw(st.integers(64, 2**20)))
    return Machine(
        name=draw(st.text(min_size=1, max_size=8)),
        nodes=(memory(first, True), *inner, sums),
        mac_pj=draw(energies),
        bits=draw(st.builds(Bits, *[st.integers(1, 32)] * 5)),
        overlap=draw(st.sampled_from(["full", "none"])),
        online_softmax=draw(st.booleans()),
    )


@given(machines())
def test_what_is_written_reads_back_as_the_same_machine(machine: Machine):
    written = json.loads(json.dumps(machine_to_json(machine)))
    assert validate(MachineModel, written, "object").value() == machine


@given(machine=machines())
@patient
def test_a_written_machine_is_a_hardware_file_too(tmp_path: Path, machine: Machine):
    assert read(tmp_path, json.dumps(machine_to_json(machine)), "mine.json").machine == machine


# --- what goes wrong is said in one sentence ---


def changed(line: str, to: str) -> str:
    assert line in SHORT
    return SHORT.replace(line, to)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            changed("keeps: WI,", "keeps: '',"),
            "'mine': sram keeps nothing, so nobody can reach it: say which of W, I, O it keeps, or take it out",
        ),
        (changed("keeps: WI,", "keeps: WX,"), "sram keeps 'WX': name each of W, I, O at most once"),
        (changed("keeps: O,", "keeps: W,"), "no memory below the first keeps O: sums need one on chip"),
        (changed("memory: sums", "memory: sram"), "two nodes are named 'sram': node names must be unique"),
        (changed("memory: sums", "memory: order"), "a node is named 'order': give it a name"),
        (changed("size: 16", "size: 0"), "nodes.2.size: input should be greater than 0 (it is 0)"),
        (changed("dims: KG", "dims: KX"), "axis k takes dims 'KX': name each of"),
        (changed("WIO,", "WIO, bytes: 1 MB,"), "DRAM, the first memory, has bytes: it is unbounded, leave them out"),
        (changed("keeps: WIO", "keeps: WI"), "DRAM, the first memory, keeps 'WI': it must keep W, I and O"),
        (changed("bytes: 64 KB, ", ""), "sram has no bytes: only the first memory is unbounded"),
        (
            changed("word_bits: 32}", "word_bits: 32}\n  - {memory: local, keeps: I, bytes: 8, fuses: true}"),
            "sram and local both say fuses: one memory may hold fused tensors",
        ),
        (
            changed("keeps: WI, fuses: true", "keeps: W").replace(
                "keeps: O, bytes: 1 KB", "keeps: IO, bytes: 1 KB, fuses: true"
            ),
            "sums says fuses but axis k is above it: only a memory that is there once can",
        ),
        (
            changed("keeps: WI,", "keeps: W,"),
            "sram says fuses but it does not keep I: only the outermost keeper of I below DRAM can",
        ),
        (
            "name: mine\nnodes:\n  - {axis: k, size: 2, dims: K}\n",
            "its first node is the outermost memory, such as DRAM: put it first",
        ),
        ("name: mine\nnodes: []\n", "its first node is the outermost memory, such as DRAM: put it first"),
        (
            changed("bytes: 1 KB", "bytes: 3"),
            "sums has 3 bytes, and one value of each tensor it keeps (O) takes 32 bits: give it more bytes",
        ),
        (
            changed("bytes: 64 KB", "bytes: 3, double_buffered: true"),
            "sram has half of 3 bytes, and one value of each tensor it keeps (W, I) takes 16 bits: give it more bytes",
        ),
        (
            changed("words_per_cycle: 8}\n  - {axis", "words_per_cycle: 8, read_words_per_cycle: 4}\n  - {axis"),
            "sram has words_per_cycle and rates for reads or writes: keep one of the two",
        ),
        (changed("64 KB", "64 kilobytes"), "nodes.1.bytes: write a capacity as a number and a unit"),
        (changed("64 KB", "true"), "nodes.1.bytes: input should be a valid integer (it is True)"),
        (
            changed("bytes: 64 KB", "byte: 64 KB"),
            "nodes.1.byte: this key is unknown: remove it or correct its spelling",
        ),
        (changed("keeps: O, ", ""), "nodes.3.keeps: this key is missing: add it"),
        (changed("dims: KG", "keeps: O"), "nodes.2.keeps: this key is unknown: remove it or correct its spelling"),
        (
            changed("{axis: k, size: 16, dims: KG}", "16"),
            "nodes.2: this must be a mapping of keys to values (it is 16)",
        ),
        (changed("axis: k", "array: k"), "nodes.2.array: it cannot be described, or has another name: remove it"),
        (SHORT + "noc: {topology: mesh}\n", "noc: it cannot be described, or has another name: remove it, and see the"),
        (changed("bytes: 64 KB", "banks: 4"), "nodes.1.banks: it cannot be described, or has another name: remove it"),
        (SHORT + "vector: {lanes: 0, pj: 1}\n", "vector.lanes: input should be greater than 0 (it is 0)"),
        (SHORT + "vector: {lanes: 4}\n", "vector.pj: this key is missing: add it"),
        (
            changed("axis: k", "axis: vector") + "vector: {lanes: 4, pj: 1}\n",
            "a node is named 'vector', as the vector unit is: give it another name",
        ),
        (SHORT + "clock: 800\n", "clock: write a clock as a positive number and a unit (kHz, MHz, GHz), such as 800"),
        (SHORT + "clock: 0 MHz\n", "clock: write a clock as a positive number and a unit"),
        (SHORT + "clock: 2000 GHz\n", "its clock is 2e+06 MHz: it must be between 1 kHz and 1 THz"),
        (
            changed("keeps: WIO, words_per_cycle: 8", "keeps: WIO, rate: 12.8 GB/s"),
            "DRAM: rate is 12.8 GB/s, which takes a clock to be words per cycle: add one to the machine",
        ),
        (
            changed("keeps: WIO, ", "keeps: WIO, rate: 12.8 GB/s, "),
            "DRAM has rate and words_per_cycle: keep one of the two",
        ),
        (
            changed("keeps: WIO, words_per_cycle: 8", "keeps: WIO, rate: 12.8 Gbit"),
            "nodes.0.rate: write a rate as a positive number and a unit (MB/s, GB/s, ",
        ),
        (changed("words_per_cycle: 8}", "read_pj: -1}"), "nodes.0.read_pj: input should be greater than or equal to 0"),
        (SHORT + "mac_pj: .inf\n", "mac_pj: input should be a finite number (it is inf)"),
        (changed("words_per_cycle: 8}", "read_pj: 1e309}"), "DRAM: read_pj is inf: it must be finite and not negative"),
        (SHORT + "bits: {sums: 0}\n", "bits.sums: input should be greater than 0 (it is 0)"),
        (SHORT + "bits: {psum: 16}\n", "bits.psum: this key is unknown: remove it or correct its spelling"),
        (SHORT + "rows: 16\n", "rows: this key is unknown: remove it or correct its spelling"),
        ("name: mine\nnodes: 3\n", "nodes: input should be a valid list (it is 3)"),
        ("name: mine\nnode: []\n", "node: this key is unknown: remove it or correct its spelling"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence_with_file_place_and_remedy(tmp_path: Path, text: str, message: str):
    with pytest.raises(FileError) as refusal:
        read(tmp_path, text)
    told = str(refusal.value)
    assert told.startswith(f"{tmp_path / 'mine.yaml'}: ")
    assert message in told
    assert "\n" not in told


def test_a_missing_file_is_named(tmp_path: Path):
    path = tmp_path / "absent.yaml"
    with pytest.raises(FileError, match="there is no such file: check the path") as refusal:
        load_machine(str(path))
    assert str(path) in str(refusal.value)


def test_a_folder_is_not_a_hardware_file(tmp_path: Path):
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(FileError, match="this is a folder: name a file in it"):
        load_machine(str(tmp_path / "folder.yaml"))


# --- clocks, and rates in bytes a second ---


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("rate: 12.8 GB/s", {"words_per_cycle": 16.0}),
        ("rate: 12800 MB/s, word_bits: 16", {"words_per_cycle": 8.0}),
        ("rate: 1 GiB/s", {"words_per_cycle": 2**30 / 800e6}),
        ("read_rate: 0.8 GB/s, write_rate: 0.4 GB/s", {"read_words_per_cycle": 1.0, "write_words_per_cycle": 0.5}),
    ],
)
def test_a_rate_in_bytes_a_second_becomes_words_per_cycle(tmp_path: Path, rates: str, words: dict[str, float]):
    text = changed("keeps: WIO, words_per_cycle: 8", f"keeps: WIO, {rates}") + "clock: 800 MHz\n"
    dram = read(tmp_path, text).machine.memories[0]
    found = {key: getattr(dram, key) for key in RATES if getattr(dram, key) is not None}
    assert found == pytest.approx(words)


def test_a_row_is_as_wide_as_what_a_rate_moves_in_a_cycle(tmp_path: Path):
    told = changed("bytes: 64 KB, words_per_cycle: 8", "bytes: 64 KB, rate: 6.4 GB/s") + "clock: 0.8 GHz\n"
    assert read(tmp_path, told).machine.memories[1:] == read(tmp_path, SHORT).machine.memories[1:]


@given(st.floats(1e-3, 1e6))
def test_a_clock_survives_a_schedule_file_to_the_last_digit(clock_mhz: float):
    machine = validate(MachineModel, COMPLETE, "mine").value()
    clocked = replace(machine, clock_mhz=clock_mhz)
    assert "clock" not in machine_to_json(machine)
    assert validate(MachineModel, machine_to_json(clocked), "mine").value() == clocked


def test_a_vector_unit_survives_a_schedule_file(tmp_path: Path):
    machine = read(tmp_path, SHORT + "vector: {lanes: 16, pj: 0.8}\n").machine
    assert machine.vector == Vector(lanes=16, pj=0.8)
    assert machine_to_json(machine)["vector"] == {"lanes": 16, "pj": 0.8}
    assert validate(MachineModel, machine_to_json(machine), "mine").value() == machine
    assert "vector" not in machine_to_json(read(tmp_path, SHORT).machine)


# --- energies beyond the table ---


@pytest.mark.parametrize(("size", "how"), [("512", True), ("1 KB", False), ("8 MB", False), ("24 MB", True)])
def test_an_energy_beyond_the_table_is_said_to_be_extrapolated(tmp_path: Path, size: str, how: bool):
    filled = read(tmp_path, SHORT.replace("bytes: 64 KB", f"bytes: {size}")).filled["sram.read_pj"]
    beyond = ", extrapolated beyond the table's 1 KB to 8 MB" if how else ""
    assert filled == f"from the capacity{beyond}"


# --- nothing else ever comes out ---


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("64 KB"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
node_keys = st.sampled_from([*SRAM, *AXIS, "fuses", "words_per_cycle", "row_bits", "double_buffered", "other"])


@given(
    node=st.sampled_from([DRAM, SRAM, AXIS, SUMS]),
    changes=st.dictionaries(node_keys, json_values, max_size=4),
    removed=st.sets(node_keys, max_size=3),
    as_yaml=st.booleans(),
)
@patient
def test_any_change_to_a_node_loads_or_is_refused_kindly(
    tmp_path: Path, node: dict[str, Any], changes: dict[str, Any], removed: set[str], as_yaml: bool
):
    other = {**{key: value for key, value in node.items() if key not in removed}, **changes}
    whole = complete_with(*(other if one is node else one for one in COMPLETE["nodes"]))
    told = ""
    try:
        read(tmp_path, yaml.safe_dump(whole) if as_yaml else json.dumps(whole))
    except FadiffError as refusal:
        told = str(refusal)
    assert "\n" not in told


@given(text=st.text(max_size=200) | st.text(alphabet="{}[]:,-&*!|>'\"\n\t #%@`0.5eKBlLrowspjname", max_size=200))
@patient
def test_any_text_at_all_is_refused_kindly(tmp_path: Path, text: str):
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode("utf-8"))
    with pytest.raises(FadiffError):
        load_machine(str(path))


@given(content=st.binary(max_size=100))
@patient
def test_any_bytes_at_all_are_refused_kindly(tmp_path: Path, content: bytes):
    path = tmp_path / "any.json"
    path.write_bytes(content)
    with pytest.raises(FadiffError):
        load_machine(str(path))


@given(st.text())
def test_any_name_at_all_is_refused_kindly(name: str):
    with pytest.raises(FadiffError):
        load_machine(name)
