import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks.validate_timeloop import (
    COUNTS,
    DOUBLE_STEP,
    ENERGIES,
    MACHINES,
    OURS,
    PAPER_ACCESS_ACCURACY,
    PAPER_TAU,
    QUANTITIES,
    ROOT,
    ROWS,
    SAME_STEP,
    SIZES,
    TIMELOOPS,
    Batch,
    Reference,
    Validation,
    accuracy,
    as_json,
    class_sizes,
    evaluate,
    extra_reuse_words,
    main,
    mapping_arrays,
    markdown,
    read_energies,
    read_reference,
    replayed_fill_words,
    validate,
)
from fadiff.hardware import load_hardware
from fadiff.workload import DIMS


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference(ROWS)


@pytest.fixture(scope="module")
def batch(reference: Reference) -> Batch:
    return evaluate(reference.where(reference.text("l0_entries") == "1"))


@pytest.fixture(scope="module")
def validation(reference: Reference) -> Validation:
    return validate(reference, read_energies(ENERGIES))


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
    assert class_sizes(validation) == {DOUBLE_STEP: 7, SAME_STEP: 1}
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


def test_accuracy_is_one_only_where_counts_are_equal():
    found = accuracy(np.array([0.0, 5.0, 9.0, 30.0, 1e12 + 1]), np.array([0.0, 0.0, 10.0, 10.0, 1e12]))
    assert found[:4] == pytest.approx([1, 0, 0.9, 0])
    assert found[4] < 1


def test_the_page_in_docs_is_what_the_data_gives(validation: Validation):
    assert markdown(validation) == (ROOT / "docs" / "validation-timeloop.md").read_text(encoding="utf-8")


def test_the_command_prints_json_and_writes_the_page(tmp_path, validation: Validation):
    app = typer.Typer()
    app.command()(main)
    page = tmp_path / "page.md"
    result = CliRunner().invoke(app, ["--json", "--markdown", str(page)])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(json.dumps(as_json(validation)))
    assert page.read_text(encoding="utf-8") == markdown(validation)
