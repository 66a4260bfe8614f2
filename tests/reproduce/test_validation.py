"""The model against Timeloop's table: counts, costs, classes of disagreement, and the experiment that tells them."""

import csv
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command import fadiff
from fadiff.hardware import load_hardware
from fadiff.reproduce.experiment import Desk, run
from fadiff.reproduce.timeloop import Reference, mapping_arrays, read_energies, read_reference
from fadiff.reproduce.timeloop_agreement import (
    PAPER_ACCESS_ACCURACY,
    PAPER_TAU,
    Agreement,
    Validation,
    accuracy,
    agreement,
    validate,
)
from fadiff.reproduce.timeloop_costs import MACHINES, OURS, QUANTITIES, TIMELOOPS
from fadiff.reproduce.timeloop_counts import COUNTS, SIZES, Batch, evaluate
from fadiff.reproduce.timeloop_differences import DOUBLE_STEP, SAME_STEP, extra_reuse_words, replayed_fill_words
from fadiff.reproduce.timeloop_figures import FAMILIES
from fadiff.reproduce.timeloop_page import report
from fadiff.workload import DIMS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-timeloop.md"
FILES = (
    "validation.csv",
    "validation-ranks.csv",
    "validation-accuracy.png",
    "validation-accuracy.svg",
    "validation-scatter.png",
    "validation-scatter.svg",
)
WITHOUT = """
import sys
package = sys.argv.pop(1)
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
from fadiff.cli import main
main()
"""
"""The program on a machine that lacks a package: the package's name, then its arguments."""


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope="module")
def batch(reference: Reference) -> Batch:
    return evaluate(reference.where(reference.text("l0_entries") == "1"))


@pytest.fixture(scope="module")
def validation(reference: Reference) -> Validation:
    return validate(reference, read_energies())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a full run from the command line."""
    into = tmp_path_factory.mktemp("docs")
    result = fadiff("reproduce", "validation", "--into", into)
    assert result.exit_code == 0, result.output
    return into


def test_only_rows_with_one_weight_a_register_are_compared(reference: Reference, validation: Validation):
    assert validation.rows == 2669
    assert validation.left_out == 451
    assert validation.rows + validation.left_out == len(reference)


def test_accesses_are_counted_as_timeloop_counts_them(validation: Validation):
    assert validation.access_accuracy >= 0.995 > PAPER_ACCESS_ACCURACY
    for op in np.unique(validation.op_types):
        for names in COUNTS.values():
            assert np.mean([validation.accuracy[name][validation.op_types == op] for name in names]) >= 0.995


def test_only_fills_of_the_input_ever_differ(validation: Validation):
    differing = {name for name, column in validation.accuracy.items() if np.any(column < 1)}
    assert differing == {"L2_I_fills", "L3_I_reads"}
    assert set(validation.accuracy) == {*SIZES, *(name for names in COUNTS.values() for name in names)}


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_ranks_follow_timeloops_overall_and_within_every_layer(validation: Validation, quantity: str):
    found = validation.ranks[TIMELOOPS][quantity]
    assert min(found.tau, found.rho, found.within_tau_min, found.within_rho_min) >= 0.99
    assert found.mean_relative_error < 1e-4


def test_our_own_accounting_ranks_energy_better_than_the_papers_model(validation: Validation):
    assert validation.ranks[OURS]["energy"].tau > PAPER_TAU["energy"]


def test_every_disagreement_belongs_to_a_named_class(validation: Validation):
    assert validation.unexplained == []
    assert validation.class_sizes == {DOUBLE_STEP: 7, SAME_STEP: 1}
    assert len(validation.differences) + np.sum(validation.equal) == validation.rows
    assert all(difference.explained == difference.timeloop for difference in validation.differences)


def test_the_classes_claim_no_row_that_agrees(batch: Batch, validation: Validation):
    claimed = sum(extra_reuse_words(batch).values()) > 0
    assert np.array_equal(claimed, ~validation.equal)


def test_a_scratchpad_that_walks_every_tile_never_fetches_more_than_the_model_says(
    batch: Batch, validation: Validation
):
    sizes = np.prod(np.asarray(batch.mapping.temporal)[3], axis=0)
    for row in np.flatnonzero(sizes < 5000)[::20]:
        assert replayed_fill_words(batch, int(row)) <= batch.traffic.l2_input_fill[row]
    assert all(difference.replayed <= difference.ours for difference in validation.differences)


def words_fetched(row: dict[str, str]) -> int:
    """Input words a scratchpad of one tile fetches, with every word of every tile in a set."""
    held = {d: int(row[f"T0_{d}"]) * int(row[f"T1_{d}"]) * int(row[f"T2_{d}"]) for d in "NKCPQRS"}
    held |= {d: held[d] * int(row[f"spatial_{d}"]) for d in "KC"}
    channel, stride = "K" if row["shape"] == "dw" else "C", int(row["stride"])
    order = row["perm_L3_inner_to_outer"][::-1]
    before: set[tuple[int, ...]] = set()
    fetched = 0
    for step in product(*(range(int(row[f"T3_{d}"])) for d in order)):
        n, c, p, q, r, s = (
            range(step[order.index(d)] * held[d], (step[order.index(d)] + 1) * held[d]) for d in ("N", channel, *"PQRS")
        )
        rows, columns = ({stride * a + b for a, b in product(*axis)} for axis in ((p, r), (q, s)))
        # A tile is a box: where the stride skips rows, what lies between them is fetched too.
        spans = (range(min(axis), max(axis) + 1) for axis in (rows, columns))
        tile = set(product(n, c, *spans))
        fetched += len(tile - before)
        before = tile
    return fetched


def test_the_replay_fetches_what_sets_of_words_say(batch: Batch):
    iterations = np.prod(np.asarray(batch.mapping.temporal)[3], axis=0)
    walked = np.where(iterations > 8, iterations * np.asarray(batch.tiles.input2), np.inf)
    kept = 0
    for op in np.unique(batch.reference.text("op_type")):
        i = int(np.argmin(np.where(batch.reference.text("op_type") == op, walked, np.inf)))
        row = {name: str(column[i]) for name, column in batch.reference.columns.items()}
        assert replayed_fill_words(batch, i) == words_fetched(row), row["id"]
        kept += replayed_fill_words(batch, i) < walked[i]
    assert kept >= 5


def test_mappings_that_timeloop_holds_for_valid_fit_the_model(validation: Validation):
    assert validation.unfit == 0


def test_the_hardware_files_describe_timeloops_machines(reference: Reference):
    for config, name in MACHINES.items():
        rows, machine = reference.where(reference.text("config") == config), load_hardware(name)
        assert set(rows.numbers("pe_dim")) == {machine.rows} == {machine.cols}
        assert set(rows.numbers("l1_bytes")) == {machine.l1_bytes}
        assert set(rows.numbers("l2_bytes")) == {machine.l2_bytes}


def test_factors_multiply_to_sizes_and_orders_are_turned_outer_to_inner(batch: Batch):
    mapping = mapping_arrays(batch.reference)
    assert np.array_equal(np.asarray(mapping.spatial) * np.prod(mapping.temporal, axis=0), batch.layers.size)
    first = next(i for i, shape in enumerate(batch.reference.text("shape")) if shape == "cnn")
    inner_to_outer = batch.reference.text("perm_L3_inner_to_outer")[first]
    outer_to_inner = "".join(DIMS[d] for d in np.argsort(mapping.rank[2][:, first]))
    assert outer_to_inner == inner_to_outer[::-1] + "G"


def test_accuracy_is_a_share_of_the_other_count():
    found = accuracy(np.array([0.0, 5.0, 9.0, 30.0, 1e12 + 1]), np.array([0.0, 0.0, 10.0, 10.0, 1e12]))
    assert found[:4] == pytest.approx([1, 0, 0.9, 0])
    assert found[4] < 1


@given(st.integers(0, 2**50), st.integers(-3, 3))
def test_accuracy_is_one_only_where_counts_are_equal(theirs: int, more: int):
    found = accuracy(np.array([float(max(0, theirs + more))]), np.array([float(theirs)]))[0]
    assert 0 <= found <= 1
    assert (found == 1) == (max(0, theirs + more) == theirs)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=5, max_size=20))
def test_tau_counts_pairs_in_the_same_order(pairs: list[tuple[int, int]]):
    ours, theirs = (np.array([1.0, 10.0, *column]) for column in zip(*pairs, strict=True))
    signs = [(np.sign(ours[i] - ours[j]), np.sign(theirs[i] - theirs[j])) for i, j in combinations(range(len(ours)), 2)]
    untied = [sum(sign[k] != 0 for sign in signs) for k in (0, 1)]
    expected = sum(a * b for a, b in signs) / np.sqrt(untied[0] * untied[1])
    found = agreement(ours, theirs, np.zeros(len(ours), dtype=np.int64))
    assert found.tau == found.within_tau_mean == found.within_tau_min == pytest.approx(expected)


def test_every_kind_of_operator_has_one_mark(validation: Validation):
    kinds = [kind for family in FAMILIES for kind in family.op_types]
    assert sorted(kinds) == sorted(np.unique(validation.op_types))
    assert len({family.marker for family in FAMILIES}) == len({family.colour for family in FAMILIES}) == len(FAMILIES)


def test_the_page_in_docs_is_what_the_data_gives(validation: Validation):
    assert report(validation, "fadiff reproduce validation --into docs") == PAGE.read_text(encoding="utf-8")


def test_the_command_writes_rows_figures_and_pages(written: Path, validation: Validation):
    assert sorted(path.name for path in (written / "results").iterdir()) == sorted(FILES)
    command = f"fadiff reproduce validation --into {written}"
    assert (written / "validation-timeloop.md").read_text(encoding="utf-8") == report(validation, command)
    section = (written / "results.md").read_text(encoding="utf-8")
    assert command in section
    assert "| access accuracy | 96% | 99.9958% | - |" in section
    assert "| tau of latency | 1.0000 | 1.0000 | 0.8712 |" in section
    assert "| tau of energy | 0.7804 | 1.0000 | 0.8724 |" in section


def test_the_rows_give_the_headline_again(written: Path, validation: Validation):
    with (written / "results" / "validation.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = [name for names in COUNTS.values() for name in names]
    pairs = [(int(row[f"{name}_ours"]), int(row[f"{name}_timeloop"])) for row in rows for name in counts]
    shares = [1 - abs(ours - theirs) / max(theirs, 1) for ours, theirs in pairs]
    assert len(rows) == validation.rows
    assert sum(shares) / len(shares) == pytest.approx(validation.access_accuracy, rel=1e-12)
    assert [row["id"] for row in rows if row["counts"] != "equal"] == [d.row for d in validation.differences]
    for row in rows:
        same = all(row[f"{name}_ours"] == row[f"{name}_timeloop"] for name in (*counts, *SIZES))
        assert same == (row["counts"] == "equal")
        if same:
            assert abs(float(row["energy_pj_timeloop"]) - float(row["energy_pj_timeloops_accounting"])) <= 0.05
            assert 0 <= float(row["cycles_timeloop"]) - float(row["cycles_timeloops_accounting"]) <= 1
        # A wider spill only ever costs.
        assert float(row["energy_pj_ours"]) >= float(row["energy_pj_ours_one_word_spills"])
        assert float(row["cycles_ours"]) >= float(row["cycles_ours_one_word_spills"])


def test_the_file_of_ranks_holds_every_accounting(written: Path, validation: Validation):
    with (written / "results" / "validation-ranks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["accounting"], row["quantity"]) for row in rows} == set(product(validation.ranks, QUANTITIES))
    for row in rows:
        found = Agreement(*(float(row[field]) for field in Agreement._fields))
        assert found == validation.ranks[row["accounting"]][row["quantity"]]


def test_a_quick_run_gives_the_same_bytes_beside_the_full_one(written: Path, tmp_path: Path):
    run(Desk("validation", tmp_path, quick=True))
    for name in FILES:
        quick = tmp_path / "results" / name.replace("validation", "validation-quick")
        assert quick.read_bytes() == (written / "results" / name).read_bytes(), name
    assert (tmp_path / "validation-quick-timeloop.md").exists()
    assert not (tmp_path / "validation-timeloop.md").exists()


@pytest.mark.parametrize("package", ["scipy", "matplotlib"])
def test_a_missing_package_is_named(package: str, tmp_path: Path):
    words = [sys.executable, "-c", WITHOUT, package, "reproduce", "validation", "--into", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    expected = (
        f"error: experiment 'validation' needs {package}: pip install 'fadiff-scheduler[baselines,bench,plots]'\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
    assert list(tmp_path.iterdir()) == []
