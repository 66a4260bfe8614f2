"""Figure 3: DeFiNES' rows as schedules of ours, their trends, and the experiment that tells them."""

import csv
import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fadiff.cost.evaluate import evaluate
from fadiff.errors import FadiffError
from fadiff.reproduce.defines.given_groups import best_schedules
from fadiff.reproduce.defines.stacks import fig3
from fadiff.reproduce.defines.stacks.describe import Reason, describe
from fadiff.reproduce.defines.stacks.fig3 import price, price_rows, smallest
from fadiff.reproduce.defines.stacks.figure import draw_trends
from fadiff.reproduce.defines.stacks.page import tell
from fadiff.reproduce.defines.stacks.reference import (
    MACHINE,
    STACKS,
    TABLE,
    Reference,
    Row,
    Stack,
    read_reference,
)
from fadiff.reproduce.defines.stacks.trends import (
    ENERGY,
    LATENCY,
    OVERLAPPED_LATENCY,
    QUANTITIES,
    Point,
    agreement,
    find_trends,
    scopes,
    z_scores,
)
from fadiff.reproduce.defines.tables import SHIPPED
from fadiff.reproduce.experiment import Desk
from fadiff.reproduce.experiment import run as run_experiment
from fadiff.schedule import Group, Schedule, Trips
from fadiff.schedule.rules import violations
from fadiff.search.greedy import greedy
from fadiff.search.objective import EDP
from fadiff.search.programs import search_programs


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope="module")
def few(reference: Reference) -> Reference:
    """A two-layer stack without a fused halo, and a three-layer one with."""
    return smallest(reference, 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Point]]:
    """The folder that a quick run filled, and the points it found on its way."""
    folder = tmp_path_factory.mktemp("fig3")
    found: list[list[Point]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig3, "QUICK_STACKS", 1)
        patch.setattr(fig3, "price", lambda *arguments: found.append(price(*arguments)) or found[0])
        run_experiment(Desk("fig3", folder, quick=True))
    return folder, found[0]


@pytest.fixture(scope="module")
def points(run: tuple[Path, list[Point]]) -> list[Point]:
    return run[1]


@pytest.fixture(scope="module")
def written(run: tuple[Path, list[Point]]) -> Path:
    return run[0]


def row_of(reference: Reference, stack: str, **wanted: object) -> Row:
    """The one row of a stack, mapped by EDP, with these columns."""
    found = [
        row
        for row in reference.rows
        if (row.stack, row.criterion) == (stack, "edp")
        and all(getattr(row, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return found[0]


def described(reference: Reference, row: Row) -> tuple[Group, ...] | Reason:
    stack = reference.stacks[row.stack]
    return describe(row, stack, stack.workload(row.stack))


# The table and its stacks


def test_every_stack_has_the_macs_weights_and_input_that_its_file_states(reference: Reference):
    assert len(reference.stacks) == 20
    assert len(reference.rows) == 680
    for name, stack in reference.stacks.items():
        workload = stack.workload(name)
        assert [layer.dims.P for layer in workload.layers] == [layer.out_width for layer in stack.layers]
        assert [layer.channels for layer in workload.layers] == [layer.K for layer in stack.layers]
        assert workload.macs == stack.macs
        assert workload.parameter_words == stack.weight_bytes
        assert workload.layers[0].input_rows == workload.layers[0].input_cols == stack.input_width
        assert all(
            consumer.input_rows == producer.dims.P
            for producer, consumer in zip(workload.layers, workload.layers[1:], strict=False)
        )


def write_reference(folder: Path, rows: list[dict[str, str]], stacks: dict[str, object]) -> Path:
    with gzip.open(folder / TABLE, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (folder / STACKS).write_text(json.dumps(stacks), encoding="utf-8")
    return folder


CELLS = {
    "stack": "new", "n_layers": "1", "final_out": "4", "hw": "df", "schedule": "depth_first",
    "overlap_mode": "fully_cached", "tile_ox": "2", "tile_oy": "4", "mapping_criterion": "edp", "latency_cycles": "9.0",
    "energy_pJ": "8.5", "dram_total_B": "7", "dram_wr_O_B": "16", "dram_rd_O_B": "0", "error": "",
}  # fmt: skip
NEW = {
    "input_width": 4, "macs": 16, "weight_bytes": 1, "df_tiles": [[2, 4]],
    "layers": [{"type": "conv", "C": 1, "K": 1, "F": 1, "stride": 1, "out_width": 4}],
}  # fmt: skip


def test_other_stacks_can_be_read(tmp_path: Path):
    found = read_reference(write_reference(tmp_path, [CELLS], {"new": NEW}))
    assert (found.rows[0].latency_cycles, found.rows[0].energy_pj) == (9.0, 8.5)
    assert described(found, found.rows[0]) == (Group(("l0",), Trips(Q=2)),)


@pytest.mark.parametrize(
    ("cells", "stacks", "said"),
    [
        ({"schedule": "sideways"}, {"new": NEW}, f"{TABLE}: row 1: schedule: "),
        ({"tile_ox": ""}, {"new": NEW}, f"{TABLE}: row 1: tile_ox: this key is missing"),
        ({"energy_pJ": "nan"}, {"new": NEW}, f"{TABLE}: row 1: energy_pJ: "),
        ({}, {"old": NEW}, f"{STACKS} has no stack 'new' of 1 layers that ends in a map of 4"),
        ({"n_layers": "2"}, {"new": NEW}, f"{STACKS} has no stack 'new' of 2 layers"),
        ({}, {"new": {**NEW, "layers": [{**NEW["layers"][0], "type": "pool"}]}}, f"{STACKS}: new: layers.0.type: "),
        ({}, {"new": {**NEW, "layers": []}}, f"{STACKS}: new: layers: "),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_in_one_sentence(
    cells: dict[str, str], stacks: dict[str, object], said: str, tmp_path: Path
):
    with pytest.raises(FadiffError) as refused:
        read_reference(write_reference(tmp_path, [CELLS | cells], stacks))
    assert said in str(refused.value)


# What a row describes


def test_unfused_rows_are_layers_on_their_own(reference: Reference):
    for row in reference.rows:
        if row.schedule == "single_layer_dram":
            assert described(reference, row) == tuple(Group((f"l{i}",)) for i in range(row.n_layers))


def test_all_retained_depth_first_rows_are_groups_with_the_trips_that_make_their_tiles(reference: Reference):
    """Maps without padding are cut into tiles as others are."""
    seen = 0
    for row in reference.rows:
        groups = described(reference, row)
        if row.schedule == "depth_first" and not isinstance(groups, Reason):
            (group,) = groups
            assert (group.trips.P * row.tile_oy, group.trips.Q * row.tile_ox) == (row.final_out, row.final_out)
            assert group.trips == Trips(P=group.trips.P, Q=group.trips.Q)
            assert group.layers == tuple(f"l{i}" for i in range(row.n_layers))
            seen += 1
    assert seen == 226


@pytest.mark.parametrize(
    ("stack", "groups"),
    [
        ("r18_c2x3", (("l0", "l1", "l2"),)),
        ("mb2_irb16s2", (("l0",), ("l1", "l2"))),
        ("v16_c2-c3s2", (("l0",), ("l1",), ("l2",))),
    ],
)
def test_whole_maps_are_cut_where_the_table_writes_an_intermediate(
    stack: str, groups: tuple[tuple[str, ...], ...], reference: Reference
):
    row = row_of(reference, stack, schedule="layer_by_layer_fulltile")
    assert described(reference, row) == tuple(Group(layers) for layers in groups)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.data())
def test_the_words_written_tell_which_intermediates_leave(channels: list[int], data: st.DataObject):
    layers = [
        {"type": "conv", "C": c, "K": k, "F": 1, "stride": 1, "out_width": 3}
        for c, k in zip([1, *channels], channels, strict=False)
    ]
    stack = Stack(input_width=3, layers=layers, macs=1, weight_bytes=1, df_tiles=[])
    leave = data.draw(st.sets(st.sampled_from(range(len(layers) - 1))))
    words = [9 * k for k in channels]
    written = words[-1] + sum(words[i] for i in leave)
    row = Row(**CELLS | {"dram_wr_O_B": written + 24, "dram_rd_O_B": 24})
    found = row.leaving(stack)
    assert found is not None
    assert sum(words[i] for i in found) == sum(words[i] for i in leave)
    assert len(found) <= len(leave)
    assert row.model_copy(update={"written_words": written + 25}).leaving(stack) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Trips(P=2, Q=2)),
        ({"tile_ox": 2, "tile_oy": 3}, Trips(P=5, Q=7)),
        ({"error": "out of memory"}, Reason.NO_RESULT),
        ({"overlap_mode": "recompute"}, Reason.TWICE),
        ({"overlap_mode": "h_cached"}, Reason.ROWS_TWICE),
        ({"tile_ox": 6}, Reason.RAGGED),
        ({"written_words": 50176.0 + 65536.0}, Reason.THROUGH_DRAM),
        ({"written_words": 50177.0}, Reason.THROUGH_DRAM),
    ],
)
def test_a_row_is_a_group_or_has_a_reason(change: dict[str, object], expected: Trips | Reason, reference: Reference):
    row = row_of(reference, "r18_c4", tile_ox=7, tile_oy=7, overlap_mode="fully_cached").model_copy(update=change)
    assert described(reference, row) == (expected if isinstance(expected, Reason) else (Group(("l0", "l1"), expected),))


def test_an_intermediate_that_stays_in_part_is_no_schedule(reference: Reference):
    row = row_of(reference, "r18_c2", schedule="layer_by_layer_fulltile")
    assert described(reference, row.model_copy(update={"written_words": row.written_words + 1})) is Reason.THROUGH_DRAM


def test_h_cached_can_be_said_where_no_fused_tensor_has_a_halo(reference: Reference):
    rows = [row for row in reference.rows if row.overlap_mode == "h_cached"]
    said = {row.stack for row in rows if not isinstance(described(reference, row), Reason)}
    assert said == {
        name
        for name, stack in reference.stacks.items()
        if all((layer.F, layer.stride) == (1, 1) for layer in stack.layers[1:])
    }


def test_a_row_that_does_not_fit_says_so(reference: Reference):
    row = row_of(reference, "v16_c2_1-2", schedule="layer_by_layer_fulltile")
    on_chip = row.model_copy(update={"written_words": 128.0 * 112**2})
    (point,) = price_rows(reference.stacks[row.stack], [on_chip])
    assert (point.reason, point.cost) == (Reason.NO_FIT, None)


# Schedules


def test_schedules_are_legal_and_run_the_groups_of_their_rows(few: Reference):
    name = next(name for name, stack in few.stacks.items() if len(stack.layers) == 3)
    workload = few.stacks[name].workload(name)
    names = tuple(layer.name for layer in workload.layers)
    wanted = [tuple(Group((layer,)) for layer in names), (Group(names),), (Group(names, Trips(P=3, Q=2)),)]
    with search_programs():
        schedules = best_schedules(workload, MACHINE, wanted, "edp")
    weights = EDP.weights(unfused := evaluate(greedy(workload, MACHINE)))
    for groups, schedule in zip(wanted, schedules, strict=True):
        assert schedule is not None
        assert not violations(schedule)
        assert (schedule.workload, schedule.machine, schedule.groups) == (workload, MACHINE, groups)
    assert schedules[0] is not None
    assert _price(schedules[0], weights) <= _price(unfused.schedule, weights) * (1 + 1e-6)


def _price(schedule: Schedule, weights: tuple[float, float]) -> float:
    found = evaluate(schedule)
    return weights[0] * found.energy_pj + weights[1] * found.cycles


def test_dram_traffic_is_that_of_defines_where_both_count_alike(points: list[Point]):
    """Full-width tiles fetch everything once; `h_cached` fetches the halo of the input between rows of tiles again."""
    alike = [
        point
        for point in points
        if point.cost is not None
        and point.row.n_layers == 2
        and (point.row.overlap_mode == "h_cached" or point.row.tile_ox == point.row.final_out)
    ]
    assert len(alike) >= 12
    for point in alike:
        assert point.cost is not None
        assert point.cost.dram_words == point.row.dram_words, point.row


def test_hidden_transfers_never_take_longer(points: list[Point]):
    costs = [point.cost for point in points if point.cost is not None]
    assert costs
    assert all(0 < cost.overlapped_cycles < cost.cycles for cost in costs)


# Trends


def test_z_scores_are_those_of_the_table():
    """The table's own are over the rows of a stack and criterion but the unfused ones, rounded to five digits."""
    with (SHIPPED / TABLE).open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as text:
        stated = [row for row in csv.DictReader(text) if row["z_latency"]]
    seen = 0
    for _, group in groupby(stated, key=lambda row: (row["stack"], row["mapping_criterion"])):
        rows = list(group)
        for value, score in (("latency_cycles", "z_latency"), ("energy_pJ", "z_energy")):
            scores = z_scores(np.array([float(row[value]) for row in rows]))
            np.testing.assert_allclose(scores, [float(row[score]) for row in rows], atol=6e-6)
        seen += len(rows)
    assert seen == 600


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=12))
def test_z_scores_are_distances_from_the_mean_in_deviations(values: list[float]):
    found = z_scores(np.array(values))
    if pstdev(values) <= 2e-9 * max(values):
        assert np.abs(found).max() <= np.sqrt(len(values))
    else:
        plain = [(value - fmean(values)) / pstdev(values) for value in values]
        np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-6)
    assert not z_scores(np.full(4, values[0])).any()


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_correlations_are_those_of_scipy_on_the_plain_numbers(quantity, points: list[Point]):
    fields = {LATENCY: ("cycles", "latency_cycles"), OVERLAPPED_LATENCY: ("overlapped_cycles", "latency_cycles")}
    mine, their = fields.get(quantity, ("energy_pj", "energy_pj"))
    trends = find_trends(points)
    assert trends
    for trend in trends:
        ours = [getattr(point.cost, mine) for point in trend.points]
        theirs = [getattr(point.row, their) for point in trend.points]
        found = agreement([trend], quantity)
        assert (found.stacks, found.rows) == (1, len(ours))
        assert found.r == pytest.approx(stats.pearsonr(ours, theirs).statistic)
        assert found.rho == pytest.approx(stats.spearmanr(ours, theirs).statistic)
        assert found.tau == pytest.approx(stats.kendalltau(ours, theirs).statistic)


def test_stacks_are_pooled_by_their_z_scores(points: list[Point]):
    trends = find_trends(points)
    ours, theirs = [], []
    for trend in trends:
        for into, values in (
            (ours, [point.cost.energy_pj for point in trend.points if point.cost is not None]),
            (theirs, [point.row.energy_pj for point in trend.points]),
        ):
            into += [(value - fmean(values)) / pstdev(values) for value in values]
    found = agreement(trends, ENERGY)
    assert found.r == pytest.approx(np.corrcoef(ours, theirs)[0, 1])
    assert (found.stacks, found.rows) == (len({t.points[0].row.stack for t in trends}), len(ours))
    assert scopes(trends)["all"] == trends


def test_equal_rows_have_no_correlation(points: list[Point]):
    (trend, *_) = find_trends(points)
    flat = trend._replace(costs=[trend.costs[0]] * len(trend.costs))
    found = agreement([flat], ENERGY)
    assert found.rows == len(trend.costs)
    assert np.isnan([found.r, found.rho, found.tau]).all()
    assert agreement([flat, trend], ENERGY).r < agreement([trend], ENERGY).r
    assert agreement([], ENERGY).rows == 0


def test_a_trend_has_three_rows_and_one_is_fused(points: list[Point]):
    mine = [point for point in points if point.cost is not None and point.row.criterion == "edp"]
    unfused = [point for point in mine if point.cost is not None and not point.cost.fused]
    fused = [point for point in mine if point.cost is not None and point.cost.fused and point.row.n_layers == 2]
    assert find_trends(unfused) == []
    assert find_trends(fused[:2]) == []
    assert [len(trend.points) for trend in find_trends(fused[:3])] == [3]


# The experiment


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_writes_tables_a_figure_and_its_section(written: Path):
    names = {f"results/fig3-quick{suffix}" for suffix in (".csv", ".png", ".svg", "-agreement.csv")}
    assert set(bytes_of(written)) == {"results.md", *names}
    assert (written / "results" / "fig3-quick.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (written / "results" / "fig3-quick.svg").read_text(encoding="utf-8")
    page = (written / "results.md").read_text(encoding="utf-8")
    assert "<!-- begin fig3-quick -->" in page
    assert "](results/fig3-quick.svg)" in page
    assert "](results/fig3-quick.csv)" in page


def test_the_same_points_give_the_same_bytes(written: Path, points: list[Point], monkeypatch: pytest.MonkeyPatch):
    before = bytes_of(written)
    monkeypatch.setattr(fig3, "price", lambda *_: points)
    run_experiment(Desk("fig3", written, quick=True))
    assert bytes_of(written) == before


def test_every_row_of_the_table_is_in_the_file_with_its_z_scores_or_a_reason(written: Path, few: Reference):
    with (written / "results" / "fig3-quick.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    key = ("stack", "criterion", "schedule", "overlap_mode", "hw", "tile_ox", "tile_oy")
    told = Counter(tuple(row[column] for column in key) for row in rows)
    assert told == Counter(tuple(str(getattr(row, column)) for column in key) for row in few.rows)
    assert {row["status"] for row in rows} <= {"priced", *(reason.value for reason in Reason)}
    for row in rows:
        assert (row["cycles"] != "") == (row["energy_pj"] != "") == (row["status"] == "priced")
    for trend in {(row["stack"], row["criterion"]) for row in rows}:
        mine = [row for row in rows if (row["stack"], row["criterion"]) == trend and row["status"] == "priced"]
        for value, score in (
            ("cycles", "z_cycles"),
            ("cycles_full_overlap", "z_cycles_full_overlap"),
            ("cycles_defines", "z_cycles_defines"),
            ("energy_pj", "z_energy"),
            ("energy_pj_defines", "z_energy_defines"),
        ):
            values = [float(row[value]) for row in mine]
            plain = [(v - fmean(values)) / pstdev(values) for v in values]
            np.testing.assert_allclose([float(row[score]) for row in mine], plain, atol=1e-5)


def test_the_section_counts_every_row_once(written: Path, few: Reference):
    page = (written / "results.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith(("| priced |", "| left out: "))]
    assert sum(int(line.split("|")[2]) for line in lines) == len(few.rows)


def test_stacks_without_a_fused_row_are_told_and_not_drawn(points: list[Point], tmp_path: Path):
    desk = Desk("fig3", tmp_path)
    assert draw_trends(desk, []) == "No stack has three priced rows, one of them fused.\n"
    bare = [replace(point, reason=Reason.NO_FIT, cost=None) for point in points]
    assert "| priced | 0 |" in tell(desk, bare, "")
    assert list(tmp_path.iterdir()) == []


def test_a_quick_run_takes_the_stacks_with_the_fewest_macs(reference: Reference):
    few = smallest(reference, 2)
    assert Counter(len(stack.layers) for stack in few.stacks.values()) == {2: 2, 3: 2}
    for depth in (2, 3):
        alike = {name: stack.macs for name, stack in reference.stacks.items() if len(stack.layers) == depth}
        assert set(sorted(alike, key=alike.__getitem__)[:2]) <= set(few.stacks)
    assert {row.stack for row in few.rows} == set(few.stacks)
