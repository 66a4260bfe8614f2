"""The model against Timeloop's two tables: counts, ranks, and a reason for every difference."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.hardware import Axis, Machine, Memory, load_machine
from fadiff.reproduce.experiment import Desk
from fadiff.reproduce.timeloop.compare import (
    DENIED,
    IMAGINED,
    OWN,
    SHIPPED,
    TIMELOOPS,
    Comparison,
    accuracy,
    compare,
)
from fadiff.reproduce.timeloop.counts import by_model, by_timeloops_rules, timeloops_price
from fadiff.reproduce.timeloop.figures import MARKS, family
from fadiff.reproduce.timeloop.page import class_rows, counts_of, report
from fadiff.reproduce.timeloop.ranks import PAPER_TAU, ranks
from fadiff.reproduce.timeloop.reference import Reference, read_references
from fadiff.reproduce.timeloop.validation import tell
from fadiff.reproduce.timeloop.walk import walked_fills
from fadiff.schedule import Mapping
from fadiff.schedule.nest import Nest
from fadiff.workload import DIMS, Dims
from fadiff.workload.layer import Input, Layer

MACHINES = {
    "gemmini-large": 1322, "gemmini-small": 1347, "gemmini-large-r64": 238, "gemmini-small-r64": 213,
    "timeloop-gemmini": 417, "timeloop-eyeriss": 422, "timeloop-simba": 418, "timeloop-tpu": 410,
    "timeloop-nvdla": 412, "timeloop-shidiannao": 421, "timeloop-cluster": 422,
}  # fmt: skip
"""Rows of each machine."""


@pytest.fixture(scope="module")
def references() -> dict[str, Reference]:
    return {reference.machine.name: reference for reference in read_references()}


@pytest.fixture(scope="module")
def comparisons(references: dict[str, Reference]) -> list[Comparison]:
    return [compare(reference) for reference in references.values()]


@pytest.fixture(scope="module")
def written(comparisons: list[Comparison], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the command writes to, and the section that it tells."""
    into = tmp_path_factory.mktemp("docs")
    (into / "results").mkdir()
    return into, tell(Desk("validation", into), comparisons)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# What is read.


def test_both_tables_are_compared_whole(references: dict[str, Reference]):
    assert {name: len(reference) for name, reference in references.items()} == MACHINES
    assert sum(MACHINES.values()) == 3120 + 2922


def test_orders_written_innermost_first_are_turned_and_a_depthwise_channel_is_g(references: dict[str, Reference]):
    cases = {case.layer.name: case for case in references["gemmini-large"].cases}
    dense = cases["20261115/alex_conv2/LARGE/0"]
    assert dense.mapping.orders[0] == "PRNKSCQG"
    assert dense.mapping.factors[0] == Dims(K=64, C=8, P=9, Q=3, R=5, S=5)
    depthwise = next(case for case in cases.values() if case.layer.dims.G > 1)
    assert depthwise.layer.dims.K == depthwise.layer.dims.C == 1
    assert all(order.endswith("K") for order in depthwise.mapping.orders)


def test_the_shipped_gemminis_are_those_of_the_table(references: dict[str, Reference]):
    for name in ("gemmini-large", "gemmini-small"):
        theirs, ours = references[name].machine, load_machine(name)
        assert [axis.size for axis in theirs.axes] == [axis.size for axis in ours.axes]
        assert [memory.bytes for memory in theirs.memories] == [memory.bytes for memory in ours.memories]


def test_timeloops_counts_priced_by_its_formula_give_its_own_cost(references: dict[str, Reference]):
    """The machines have the energies and rates that the tables were made with."""
    for reference in references.values():
        said = {name: np.nan_to_num(column) for name, column in reference.numbers.items()}
        cost, _ = timeloops_price(reference, by_model(reference), said)
        assert np.max(np.abs(cost.energy_pj - said["energy_pj"])) < 0.03
        whole = ~np.isnan(reference.numbers["cycles_total"])
        late = (said["cycles_total"] - cost.cycles)[whole]
        assert set(late) <= {0.0, 1.0}


# What is found.


def test_at_least_995_of_1000_counts_are_equal_on_every_machine(comparisons: list[Comparison]):
    for comparison in comparisons:
        assert np.mean(comparison.counts == 1) >= 0.995, comparison.name
    assert counts_of(comparisons).size == 86_949
    assert np.mean(counts_of(comparisons) == 1) > 0.998


def test_only_fetches_of_the_input_ever_differ(comparisons: list[Comparison]):
    differing = {name for c in comparisons for name, found in c.accuracy.items() if np.any(found < 1)}
    assert {name[2:] for name in differing} == {"_I_reads", "_I_fills"}


def test_every_number_of_timeloops_is_compared(comparisons: list[Comparison]):
    for comparison in comparisons:
        rest = {name for name in comparison.reference.numbers if name not in comparison.accuracy}
        memories = len(comparison.reference.machine.memories)
        assert rest == {"cycles_total", "energy_pj", *(f"M{k}_cycles" for k in range(memories))}


def test_mappings_that_timeloop_holds_for_valid_are_legal(comparisons: list[Comparison]):
    assert [comparison.broken_rules for comparison in comparisons] == [0] * len(MACHINES)


@pytest.mark.parametrize("quantity", ["latency", "energy"])
def test_ranks_follow_timeloops_on_every_machine(comparisons: list[Comparison], quantity: str):
    for comparison in comparisons:
        found = ranks([comparison], TIMELOOPS)[quantity]
        assert min(found.tau, found.rho) >= 0.995, comparison.name
        assert found.mean_difference < 0.002, comparison.name


def test_by_its_own_rules_the_model_ranks_energy_as_timeloop_does(comparisons: list[Comparison]):
    for comparison in comparisons:
        assert ranks([comparison], OWN)["energy"].tau >= 0.995, comparison.name


def test_the_shipped_files_rank_energy_better_than_the_papers_model(comparisons: list[Comparison]):
    gemminis = [comparison for comparison in comparisons if SHIPPED in comparison.costs]
    assert [comparison.name for comparison in gemminis] == ["gemmini-large", "gemmini-small"]
    assert ranks(gemminis, SHIPPED)["energy"].tau > PAPER_TAU["energy"]


# Why the rest differs.


def test_every_difference_is_named_and_predicted(comparisons: list[Comparison]):
    assert [name for comparison in comparisons for name in comparison.unexplained] == []
    assert {kind: class_rows(comparisons, kind) for kind in (IMAGINED, DENIED)} == {IMAGINED: 29, DENIED: 19}
    assert sum(np.sum(~comparison.equal) for comparison in comparisons) == 29 + 19
    for difference in (d for comparison in comparisons for d in comparison.differences):
        assert difference.predicted == difference.timeloop < difference.model, difference


def test_the_walk_gives_every_fill_of_the_input_that_is_not_cut(comparisons: list[Comparison]):
    """Not only those that differ: on all others it agrees with the model's formula, and with Timeloop."""
    assert sum(comparison.walked for comparison in comparisons) == 7462


def test_overlaps_are_denied_only_where_two_loops_or_lanes_move_one_axis_of_the_image(comparisons: list[Comparison]):
    for comparison in comparisons:
        machine = comparison.reference.machine
        cases = {case.layer.name: case for case in comparison.reference.cases}
        for difference in (d for d in comparison.differences if d.kind == DENIED):
            above = range(machine.number[difference.memory])
            factors = cases[difference.row].mapping.factors
            moving = [
                sum(factors[node][DIMS.index(dim)] > 1 for node in above for dim in axis) for axis in ("PR", "QS")
            ]
            assert max(moving) >= 2, difference


def test_a_model_that_misses_more_overlaps_is_noticed(
    references: dict[str, Reference], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Nest, "slides", lambda self, memory, loop: loop.trips < 0)
    found = compare(references["gemmini-small-r64"])
    assert np.mean(found.counts == 1) < 0.995
    assert class_rows([found], DENIED) > 20


def test_rows_of_the_general_table_differ_only_where_it_flags_them(comparisons: list[Comparison]):
    general = [comparison for comparison in comparisons if comparison.name.startswith("timeloop-")]
    assert sum(np.sum(comparison.reference.flagged) for comparison in general) == 41
    assert not any(np.any(~comparison.equal & ~comparison.reference.flagged) for comparison in general)


def test_timeloops_rule_for_lanes_changes_sums_below_lanes_that_reduce_and_nothing_else(
    references: dict[str, Reference],
):
    reference = references["timeloop-cluster"]
    model = by_model(reference)
    changed = by_timeloops_rules(reference, model)
    assert set(model.columns) - set(changed) == {f"M{k}_O_drains" for k in (1, 2, 3)}
    for name, column in changed.items():
        lanes = model.reduced[int(name[1])] if name.startswith("M") else np.ones(len(reference))
        same = column == model.columns[name]
        assert np.all(same | (lanes > 1)), name
        assert np.all(same) == (name not in {f"M{k}_O_{what}" for k in (2, 3) for what in ("reads", "fills")}), name


@pytest.mark.parametrize(
    ("column", "more"),
    [("M2_O_updates", 1), ("M1_W_fills", 1), ("M1_I_fills", -1), ("M0_I_reads", 1), ("M1_I_tile", 1),
     ("cycles_compute", 1), ("M1_cycles", 2), ("cycles_total", -1), ("energy_pj", 0.1)],
)  # fmt: skip
def test_a_number_that_is_off_is_never_explained_away(references: dict[str, Reference], column: str, more: float):
    whole = references["timeloop-gemmini"]
    cases = [case for case in whole.cases if case.mode == "full"][:20]
    names = {case.layer.name for case in cases}
    schedule = replace(
        whole.schedule,
        workload=replace(whole.schedule.workload, layers=tuple(case.layer for case in cases)),
        groups=tuple(group for group in whole.schedule.groups if group.layers[0] in names),
        mappings={case.layer.name: case.mapping for case in cases},
    )
    assert compare(Reference(schedule, cases)).unexplained == []
    wrong = cases[7]._replace(numbers={**cases[7].numbers, column: cases[7].numbers[column] + more})
    found = compare(Reference(schedule, [*cases[:7], wrong, *cases[8:]]))
    assert found.unexplained == [wrong.layer.name]


# The walk, by hand.

TOY = Machine(
    "toy",
    (
        Memory("DRAM", "WIO", 1, 1),
        Memory("buffer", "WIO", 1, 1, bytes=10**6),
        Axis("lanes", 4, "KC"),
        Memory("registers", "WIO", 1, 1, bytes=10**6),
    ),
    mac_pj=1,
)


def toy_walk(dims: Dims, dram: Dims, order: str, *, every: bool, memory: int = 1, lanes: Dims = Dims()) -> float | None:
    layer = Layer("toy", "mac", dims, (Input(None),))
    inner = Dims(*(-(-size // (a * b)) for size, a, b in zip(dims, dram, lanes, strict=True)))
    mapping = Mapping((dram, Dims(), lanes, inner), (order, "GNKCPQRS", "GNKCPQRS"))
    return walked_fills(TOY, layer, mapping, memory, every=every)


@pytest.mark.parametrize("every", [True, False])
class TestWalk:
    def test_a_whole_tensor_is_fetched_once(self, every: bool):
        assert toy_walk(Dims(C=3, P=4, R=3), Dims(K=1), "GNKCPQRS", every=every) == 3 * 6

    def test_a_window_that_slides_fetches_every_row_once(self, every: bool):
        assert toy_walk(Dims(P=8, R=3), Dims(P=8), "GNKCPQRS", every=every) == 10

    def test_a_loop_that_does_not_move_the_window_breaks_its_slide(self, every: bool):
        dims = Dims(K=2, P=8, R=3)
        assert toy_walk(dims, Dims(K=2, P=8), "GNPKCQRS", every=every) == 8 * 3
        assert toy_walk(dims, Dims(K=2, P=8), "GNKPCQRS", every=every) == 2 * 10

    def test_every_lane_is_filled(self, every: bool):
        dims, lanes = Dims(K=2, C=2, P=4), Dims(K=2, C=2)
        assert toy_walk(dims, Dims(P=4), "GNKCPQRS", every=every, memory=3, lanes=lanes) == 4 * 4

    def test_cut_loops_are_left_alone(self, every: bool):
        assert toy_walk(Dims(P=7), Dims(P=4), "GNKCPQRS", every=every) is None


def test_two_iterations_make_a_jump_look_like_a_step():
    """Tiles of two rows step by one along R and by two along P: after R's second tile, but not after its third."""
    dims, dram = Dims(P=4, R=3), Dims(P=2, R=3)
    assert toy_walk(dims, dram, "GNKCPQRS", every=True) == (2 + 1 + 1) * 2
    assert toy_walk(dims, dram, "GNKCPQRS", every=False) == (2 + 1 + 1) + (1 + 1 + 1)


# What is told.


def test_accuracy_is_a_share_of_the_other_count():
    found = accuracy(np.array([0.0, 5.0, 9.0, 30.0, 1.0]), np.array([0.0, 0.0, 10.0, 10.0, np.nan]))
    assert found[:4] == pytest.approx([1, 0, 0.9, 0])
    assert np.isnan(found[4])


@given(st.integers(0, 2**50), st.integers(-3, 3))
def test_accuracy_is_one_only_where_counts_are_equal(theirs: int, more: int):
    found = accuracy(np.array([float(max(0, theirs + more))]), np.array([float(theirs)]))[0]
    assert 0 <= found <= 1
    assert (found == 1) == (max(0, theirs + more) == theirs)


def test_every_layer_has_a_mark(references: dict[str, Reference]):
    drawn = {family(case.layer) for reference in references.values() for case in reference.cases}
    assert drawn == set(MARKS)
    assert all(len(set(looks)) == len(MARKS) for looks in zip(*MARKS.values(), strict=True))


def test_the_command_writes_rows_a_page_and_a_figure(written: tuple[Path, str], comparisons: Sequence[Comparison]):
    into, section = written
    names = ["validation-differences.csv", "validation-machines.csv", "validation-ratios.png", "validation-ratios.svg"]
    assert sorted(path.name for path in (into / "results").iterdir()) == [*names, "validation.csv"]
    command = f"fadiff reproduce validation --into {into}"
    assert command in section
    page = (into / "validation-timeloop.md").read_text(encoding="utf-8")
    assert page == report(comparisons, command)
    assert "| unexplained | 0 |" in page


def test_the_rows_give_the_headline_again(written: tuple[Path, str]):
    into, section = written
    rows = read_rows(into / "results" / "validation.csv")
    assert len(rows) == sum(MACHINES.values())
    assert all((row["compared"] == row["equal"]) == (row["class"] == "equal") for row in rows)
    ours, theirs = (np.array([float(row[f"energy_pj_{by}"]) for row in rows]) for by in ("timeloops_rules", "timeloop"))
    assert f"| mean difference of energy | - | {np.mean(np.abs(ours / theirs - 1)):.4%} |" in section
    assert all((row["cycles_timeloop"] == "") == (row["mode"] == "cut") for row in rows)


def test_the_summary_has_a_line_for_every_machine(written: tuple[Path, str]):
    rows = read_rows(written[0] / "results" / "validation-machines.csv")
    assert {row["machine"]: int(row["rows"]) for row in rows} == MACHINES
    assert sum(int(row["counts"]) for row in rows) == 86_949
    assert sum(int(row["imagined_overlap_rows"]) + int(row["denied_overlap_rows"]) for row in rows) == 29 + 19
    assert {row["unexplained_rows"] for row in rows} == {"0"}
    assert len(read_rows(written[0] / "results" / "validation-differences.csv")) == 51
