"""What is not modelled is a part of the network: told in words, and carried by its files."""

import doctest
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff.files import FileError
from fadiff.workload import Dims, Input, Layer, NotModelled, Workload, WorkloadError, coverage, load_workload
from fadiff.workload.file import WorkloadModel, workload_to_json

A = Layer("a", "mac", Dims(K=8, C=4, P=8), (Input(None),))
B = Layer("b", "mac", Dims(K=4, C=8, P=8), (Input("a", fusible=False, reason="Slice s takes a part of it"),))
SORT = NotModelled("order", "TopK", "it sorts", 0)
MYSTERY = NotModelled("mystery", "Mystery", "nobody here knows this operator", None, 10, 20, 30)


def fourier(number: int, macs: int = 128) -> NotModelled:
    return NotModelled(f"fft{number}", "DFT", "it is no matrix product", macs, 0, 64, 64)


def network(*rows: NotModelled, notes: tuple[str, ...] = ()) -> Workload:
    return Workload("net", (A, B), rows, notes)


# --- in words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((), "nothing"),
        ((fourier(1),), "20.0% of the MACs: 1 x DFT because it is no matrix product"),
        ((fourier(1), fourier(2)), "33.3% of the MACs: 2 x DFT because it is no matrix product"),
        ((SORT,), "0.0% of the MACs: 1 x TopK because it sorts"),
        ((MYSTERY,), "1 operator whose MACs nobody knows: 1 x Mystery because nobody here knows this operator"),
        (
            (SORT, MYSTERY, fourier(1)),
            "20.0% of the MACs, and 1 operator whose MACs nobody knows: 1 x DFT because it is no matrix product; "
            "1 x TopK because it sorts; 1 more kind",
        ),
    ],
)
def test_what_is_missing_is_told_by_kind_the_most_macs_first(rows: tuple[NotModelled, ...], told: str):
    assert network(*rows).coverage.told == told


def test_the_example_in_the_docstring_runs():
    failed, tried = doctest.testmod(coverage)
    assert (failed, tried) == (0, 2)


def test_a_summary_says_nothing_of_a_network_that_is_all_there():
    assert network().coverage.facts == []
    assert network(SORT, notes=("one", "two")).coverage.facts == [
        ("not modelled", "0.0% of the MACs: 1 x TopK because it sorts"),
        ("note", "one"),
        ("note", "two"),
    ]
    assert network(notes=("one", "two", "three", "four")).coverage.facts[1] == ("note", "two (and 2 more notes)")


def test_what_multiplies_or_may_do_so_is_a_gap():
    assert network(SORT, MYSTERY, fourier(1)).coverage.gaps == (MYSTERY, fourier(1))


# --- in files --------------------------------------------------------------------------------------------------------

LINES = st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="\xa0"), min_size=1).filter(
    str.isprintable
)
COUNTS = st.integers(0, 2**53)
ROWS = st.builds(NotModelled, LINES, LINES, LINES, st.none() | COUNTS, COUNTS, COUNTS, COUNTS)


@given(rows=st.lists(ROWS, max_size=3), notes=st.lists(LINES, max_size=3), reason=st.none() | LINES)
def test_coverage_and_reasons_survive_files(rows: list[NotModelled], notes: list[str], reason: str | None):
    changed = replace(B, inputs=(replace(B.inputs[0], reason=reason),))
    written = workload_to_json(Workload("net", (A, changed), tuple(rows), tuple(notes)))
    for read in (json.loads(json.dumps(written)), yaml.safe_load(yaml.safe_dump(written, allow_unicode=True))):
        found = WorkloadModel.model_validate(read).value()
        assert found.not_modelled == tuple(rows)
        assert found.notes == tuple(notes)
        assert [edge.reason for edge in found.edges] == [reason]


def test_a_file_says_only_what_there_is_to_say():
    """Networks that are all there are written as ever, and files without a word on it are read."""
    plain = Workload("net", (A, replace(B, inputs=(Input("a", fusible=False),))))
    assert set(workload_to_json(plain)) == {"name", "layers"}
    assert workload_to_json(plain)["layers"][1]["inputs"] == [{"from": "a", "port": "input", "fusible": False}]
    assert WorkloadModel.model_validate(workload_to_json(plain)).value() == plain


def test_a_reason_makes_no_other_network():
    """A schedule from before somebody knew the reason can be compared with one from after."""
    assert (A, replace(B, inputs=(Input("a", fusible=False),))) == network().layers


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"fusible": false, ', "", "a reason says why an operand cannot be fused: say fusible: false too"),
        ('"Slice s', '"Slice\\ns', "is no line of printable characters"),
        ('"macs": null', '"macs": -1', "not_modelled.0.macs: input should be greater than or equal to 0"),
        ('"macs": null, ', "", "not_modelled.0.macs: this key is missing: add it"),
        ('"a note"', '"a\\u0007note"', "'a\\x07note' does not print"),
    ],
)
def test_files_that_make_no_sense_are_told_in_a_sentence(old: str, new: str, sentence: str, tmp_path: Path):
    text = json.dumps(workload_to_json(network(MYSTERY, notes=("a note",))))
    assert old in text
    path = tmp_path / "net.json"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FileError) as refused:
        load_workload(path)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_lines_that_do_not_print_are_refused():
    with pytest.raises(WorkloadError, match="does not print"):
        network(replace(SORT, reason="two\nlines"))
