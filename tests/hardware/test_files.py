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
    Hardware,
    HardwareModel,
    Picojoules,
    WordsPerCycle,
    builtin_hardware,
    hardware_to_json,
    l1_pj,
    l2_pj,
    load_hardware,
)

# Examples overwrite one file in the test's folder, and how long each takes says nothing.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

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


def load(folder: Path, text: str, name: str = "mine.yaml") -> Hardware:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_hardware(str(path))


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in COMPLETE.items() if key not in keys}


# --- built-in accelerators ---


def test_three_gemminis_are_built_in():
    assert builtin_hardware() == ("gemmini-default", "gemmini-large", "gemmini-small")


@pytest.mark.parametrize(
    ("name", "array", "l1_kb", "l2_kb", "online_softmax"),
    [
        ("gemmini-large", 32, 64, 512, True),
        ("gemmini-small", 16, 8, 8, True),
        ("gemmini-default", 16, 64, 256, False),
    ],
)
def test_a_built_in_gemmini_is_as_published(name: str, array: int, l1_kb: int, l2_kb: int, online_softmax: bool):
    expected = Hardware(
        name=name,
        rows=array,
        cols=array,
        l1_bytes=l1_kb * 1024,
        l2_bytes=l2_kb * 1024,
        words_per_cycle=WordsPerCycle(l3=8, l2=2 * array, l1_per_column=2),
        pj=Picojoules(
            mac=0.5608,
            l0=0.48746,
            l1=round(float(l1_pj(l1_kb * 1024.0, array)), 6),
            l2=round(float(l2_pj(l2_kb * 1024.0, array)), 6),
            l3=100,
        ),
        online_softmax=online_softmax,
    )
    assert load_hardware(name) == expected


def test_energies_of_the_built_in_gemminis_are_the_same_on_every_machine():
    found = {name: load_hardware(name).pj for name in builtin_hardware()}
    assert {name: (pj.l1, pj.l2) for name, pj in found.items()} == {
        "gemmini-default": (2.324103, 2.572212),
        "gemmini-large": (1.638759, 3.556703),
        "gemmini-small": (1.136551, 0.455058),
    }


# --- the two forms of a file ---


@pytest.mark.parametrize("name", ["mine.json", "mine.yaml", "mine.yml", "MINE.JSON"])
def test_the_hardware_object_of_a_schedule_file_is_a_hardware_file(tmp_path: Path, name: str):
    loaded = load(tmp_path, json.dumps(COMPLETE), name)
    assert loaded == validate(HardwareModel, COMPLETE, "object").value()
    assert json.dumps(hardware_to_json(loaded)) == json.dumps(COMPLETE)


def test_in_a_schedule_file_only_four_keys_of_the_hardware_may_be_left_out():
    optional = {"spill_words", "double_buffered", "online_softmax", "overlap"}
    for key in COMPLETE:
        if key in optional:
            validate(HardwareModel, without(key), "object")
        else:
            with pytest.raises(FileError, match=f"^object: {key}: this key is missing: add it$"):
                validate(HardwareModel, without(key), "object")
    assert hardware_to_json(validate(HardwareModel, without(*optional), "object").value()) == {
        **COMPLETE,
        "online_softmax": False,
    }


positive = st.floats(1e-3, 1e6)
machines = st.builds(
    Hardware,
    name=st.text(min_size=1, max_size=8),
    rows=st.integers(1, 1024),
    cols=st.integers(1, 1024),
    l1_bytes=st.integers(1, 2**30),
    l2_bytes=st.integers(1, 2**30),
    pj=st.builds(Picojoules, *[st.floats(0, 1e6) | st.integers(0, 100)] * 5),
    words_per_cycle=st.builds(WordsPerCycle, *[positive | st.integers(1, 100)] * 3),
    spatial_rows=st.lists(st.sampled_from("CRS"), unique=True).map(tuple),
    spatial_cols=st.lists(st.sampled_from("KG"), unique=True).map(tuple),
    spill_words=st.integers(0, 8),
    double_buffered=st.booleans(),
    online_softmax=st.booleans(),
    overlap=st.sampled_from(["full", "none"]),
)


@given(machines)
@patient
def test_what_is_written_reads_back_as_the_same_machine(machine: Hardware):
    written = json.loads(json.dumps(hardware_to_json(machine)))
    assert validate(HardwareModel, written, "object").value() == machine


@given(machine=machines)
@patient
def test_a_written_machine_is_a_hardware_file_too(tmp_path: Path, machine: Hardware):
    assert load(tmp_path, json.dumps(hardware_to_json(machine)), "mine.json") == machine


def test_a_short_file_takes_the_defaults(tmp_path: Path):
    assert load(tmp_path, SMALLEST) == Hardware(
        name="mine",
        rows=8,
        cols=4,
        l1_bytes=2048,
        l2_bytes=16384,
        words_per_cycle=WordsPerCycle(l3=8, l2=8, l1_per_column=2),
        pj=Picojoules(0.5608, 0.48746, round(float(l1_pj(2048.0, 4)), 6), round(float(l2_pj(16384.0, 4)), 6), 100),
        spatial_rows=("C",),
        spatial_cols=("K", "G"),
        spill_words=4,
        double_buffered=False,
        online_softmax=False,
        overlap="full",
    )


def test_energies_bandwidths_and_dims_may_be_given_in_part(tmp_path: Path):
    short = load(tmp_path, SMALLEST)
    part = load(tmp_path, SMALLEST + "pj: {L2: 1.25}\nwords_per_cycle: {L3: 16}\nspatial: {rows: [C, R, S]}\n")
    assert part == replace(
        short,
        pj=short.pj._replace(l2=1.25),
        words_per_cycle=short.words_per_cycle._replace(l3=16),
        spatial_rows=("C", "R", "S"),
    )


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
        ("0.5 MB", 524288),
        ("1.5 KB", 1536),
    ],
)
def test_a_kilobyte_is_1024_bytes_in_every_spelling(tmp_path: Path, written: str, size_bytes: int):
    assert load(tmp_path, SMALLEST.replace("16 KB", written)).l2_bytes == size_bytes


def test_capacities_may_be_plain_bytes(tmp_path: Path):
    text = SMALLEST.replace("l1: 2 KB", "l1_bytes: 2048").replace("l2: 16 KB", "l2_bytes: 16384")
    assert load(tmp_path, text) == load(tmp_path, SMALLEST)


# --- what goes wrong is said in one sentence ---


CAPACITY_REMEDY = "write a capacity as a number and a unit (B, KB, KiB, MB or MiB), such as 64 KB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALLEST + "l1_bytes: 2048\n", "l1: l1_bytes is given too: keep one of the two"),
        (SMALLEST.replace("l2: 16 KB\n", ""), "l2: this key is missing: add it, such as l2: 64 KB"),
        (SMALLEST.replace("rows: 8\n", ""), "rows: this key is missing: add it"),
        (SMALLEST + "l3: 1 MB\n", "l3: this key is unknown: remove it or correct its spelling"),
        (SMALLEST + "pj: {L4: 1}\n", "pj.L4: this key is unknown: remove it or correct its spelling"),
        (SMALLEST.replace("16 KB", "16 kilobytes"), f"l2: {CAPACITY_REMEDY} (it is '16 kilobytes')"),
        (SMALLEST.replace("16 KB", "16 Kb"), f"l2: {CAPACITY_REMEDY} (it is '16 Kb')"),
        (SMALLEST.replace("16 KB", "16"), f"l2: {CAPACITY_REMEDY} (it is 16)"),
        (SMALLEST.replace("16 KB", "[16, KB]"), f"l2: {CAPACITY_REMEDY} (it is [16, 'KB'])"),
        (SMALLEST.replace("16 KB", "0.3 KB"), "l2: write a capacity that comes to whole bytes"),
        (SMALLEST.replace("16 KB", "-16 KB"), "l2: input should be greater than 0 (it is -16384)"),
        (SMALLEST.replace("16 KB", "0 KB"), "l2: input should be greater than 0 (it is 0)"),
        (SMALLEST.replace("l2: 16 KB", "l2_bytes: -5"), "l2_bytes: input should be greater than 0 (it is -5)"),
        (SMALLEST.replace("l2: 16 KB", "l2_bytes: 16 KB"), "l2_bytes: input should be a valid integer"),
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


def test_a_missing_file_is_named(tmp_path: Path):
    path = tmp_path / "absent.yaml"
    with pytest.raises(FileError, match="there is no such file: check the path") as refusal:
        load_hardware(str(path))
    assert str(path) in str(refusal.value)


def test_a_folder_is_not_a_hardware_file(tmp_path: Path):
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(FileError, match="this is a folder: name a file in it"):
        load_hardware(str(tmp_path / "folder.yaml"))


def test_a_misspelt_name_is_told_the_nearest_one_and_all_others():
    with pytest.raises(FileError) as refusal:
        load_hardware("gemini-large")
    assert str(refusal.value) == (
        "gemini-large: no built-in hardware has this name (did you mean gemmini-large?): choose gemmini-default, "
        "gemmini-large, gemmini-small, or a file that ends in .yaml, .yml, .json"
    )


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(FileError, match=r"^tpu: no built-in hardware has this name: choose gemmini-default, "):
        load_hardware("tpu")


# --- nothing else ever comes out ---


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("64 KB"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from([*COMPLETE, "l1", "l2", "other"])


@given(text=st.text(max_size=200) | st.text(alphabet="{}[]:,-&*!|>'\"\n\t #%@`0.5eKBlLrowspjname", max_size=200))
@patient
def test_any_text_at_all_is_refused_kindly(tmp_path: Path, text: str):
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode("utf-8"))
    with pytest.raises(FadiffError):
        load_hardware(str(path))


@given(content=st.binary(max_size=100))
@patient
def test_any_bytes_at_all_are_refused_kindly(tmp_path: Path, content: bytes):
    path = tmp_path / "any.json"
    path.write_bytes(content)
    with pytest.raises(FadiffError):
        load_hardware(str(path))


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


@given(st.text())
@patient
def test_any_name_at_all_is_refused_kindly(name: str):
    with pytest.raises(FadiffError):
        load_hardware(name)


@pytest.mark.parametrize("digits", ["1" + "0" * 400, "0x" + "f" * 5000, "1e400", "9" * 5000])
@pytest.mark.parametrize("line", ["rows: {}", "l2_bytes: {}", "pj: {{mac: {}}}", "l1: {} KB", "spill_words: {}"])
def test_absurd_numbers_are_refused_kindly(tmp_path: Path, line: str, digits: str):
    key = line.split(":")[0]
    kept = [kept for kept in SMALLEST.splitlines() if kept.split(":")[0] != key]
    with pytest.raises(FadiffError):
        load(tmp_path, "\n".join([*kept, line.format(digits)]))
