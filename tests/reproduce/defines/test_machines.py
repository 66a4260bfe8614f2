"""Networks on DeFiNES' machines: the table, networks and stacks, schedules of a toy, causes, and the experiment."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.hardware import load_machine
from fadiff.reproduce.defines.machines import experiment as defines
from fadiff.reproduce.defines.machines.causes import EXPLANATIONS, Cause, Pair
from fadiff.reproduce.defines.machines.cell import Cell, least_energies, tiled, told_groups
from fadiff.reproduce.defines.machines.compare import comparisons
from fadiff.reproduce.defines.machines.figure import PARTS, by_part
from fadiff.reproduce.defines.machines.network import stacks, to_workload
from fadiff.reproduce.defines.machines.reference import (
    BEST,
    MEMORIES,
    NETWORKS,
    SINGLE,
    TABLE,
    TILED,
    WHOLE,
    Network,
    Reference,
    Row,
    read_reference,
)
from fadiff.reproduce.defines.stacks.reference import MACHINE
from fadiff.reproduce.defines.tables import SHIPPED
from fadiff.reproduce.experiment import Desk
from fadiff.reproduce.experiment import run as run_experiment
from fadiff.schedule import Group, Trips
from fadiff.workload import Dims, Input, Layer, Workload
from reproduce.pages import table_after

HOME, WORK = "meta-proto-like-df", "fsrcnn"


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


def rows_of(reference: Reference, machine: str, workload: str) -> list[Row]:
    return [row for row in reference.rows if (row.machine, row.workload) == (machine, workload)]


# The table and its networks


def test_every_machine_of_the_table_is_in_the_catalog_with_all_its_memories(reference: Reference):
    assert {row.machine for row in reference.rows} == set(MEMORIES)
    for name, memories in MEMORIES.items():
        assert {memory.name for memory in load_machine(name).memories} == {"DRAM", *memories.values()}


def test_the_energies_of_a_rows_memories_add_up_to_its_own(reference: Reference):
    for row in reference.rows:
        assert sum(row.energy_by_node_pj().values()) == pytest.approx(row.energy_pj, rel=1e-8)
        assert sum(by_part(row).values()) == pytest.approx(row.energy_pj, rel=1e-8)
        assert set(by_part(row)) == set(PARTS)


def test_every_network_has_the_macs_weights_and_input_that_its_file_states(reference: Reference):
    assert set(reference.networks) == {"fsrcnn", "dmcnnvd", "mobilenetv1", "resnet18"}
    for name, network in reference.networks.items():
        workload = to_workload(name, network)
        assert (workload.macs, workload.parameter_words) == (network.macs, network.weight_bytes)
        first = workload.layers[0]
        assert (first.input_rows, first.input_cols) == (network.input.rows, network.input.cols)
        assert all(layer.pad == (0, 0) for layer in workload.layers if layer.is_mac)


def test_pooling_is_folded_and_cropped_addends_come_from_dram(reference: Reference):
    network = to_workload("resnet18", reference.networks["resnet18"])
    assert (network["l0"].epilogue, network["l0"].stored) == (("max_pool",), (155, 155))
    assert (network["l25"].epilogue, network["l25"].stored) == (("global_pool",), (1, 1))
    assert [(operand.source, operand.fusible) for operand in network["l4"].inputs] == [("l0", False), ("l3", True)]
    assert "l1" not in network


def test_stacks_are_as_many_as_in_the_table(reference: Reference):
    with (SHIPPED / TABLE).open(encoding="utf-8") as file:
        stated = {(row["machine"], row["workload"]): int(row["n_stacks"])
                  for row in csv.DictReader(file) if row["schedule"] == "depth_first"}  # fmt: skip
    assert len(stated) == 7
    for (machine, name), count in stated.items():
        workload = to_workload(name, reference.networks[name])
        found = stacks(workload, load_machine(machine))
        assert len(found) == count
        assert tuple(name for stack in found for name in stack) == workload.topological


def test_branches_stay_in_one_stack_or_fall_apart(reference: Reference):
    network = to_workload("resnet18", reference.networks["resnet18"])
    found = stacks(network, load_machine(HOME))
    assert found[:2] == [tuple(f"l{i}" for i in (0, *range(2, 14))), ("l14", "l15", "l16")]
    assert found[2:5] == [("l17",), ("l18",), ("l19",)], "their weights are more than a megabyte"


CELLS = {
    "machine": HOME, "workload": "new", "schedule": "depth_first", "overlap_mode": "fully_cached", "tile_ox": "4",
    "tile_oy": "4", "energy_pJ": "100", "latency_cycles": "10", "dram_rd_I_B": "1", "dram_rd_W_B": "1",
    "dram_wr_O_B": "1", "energy_mac_pJ": "40", "energy_by_memory_pJ": "dram=50;rf_1B=10",
}  # fmt: skip
CONV = {"id": 0, "kind": "conv", "P": 4, "Q": 4, "R": 3, "S": 3, "stride": 1, "K": 2, "C": 3, "from": [-1]}
NEW = {
    "input": {"id": -1, "channels": 3, "rows": 6, "cols": 6}, "macs": 864, "weight_bytes": 54,
    "bits": {"W": 8, "I": 8, "O": 8, "psum": 16}, "layers": [CONV],
}  # fmt: skip


def write_reference(folder: Path, rows: Sequence[dict[str, str]], networks: dict[str, object]) -> Path:
    with (folder / TABLE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (folder / NETWORKS).write_text(json.dumps(networks), encoding="utf-8")
    return folder


def test_other_networks_can_be_read(tmp_path: Path):
    found = read_reference(write_reference(tmp_path, [CELLS], {"new": NEW}))
    assert found.rows[0].energy_by_node_pj() == {"mac": 40.0, "DRAM": 50.0, "weight_register": 10.0}
    assert to_workload("new", found.networks["new"]).macs == 864


@pytest.mark.parametrize(
    ("cells", "networks", "said"),
    [
        ({"schedule": "sideways"}, {"new": NEW}, f"{TABLE}: row 1: schedule: "),
        ({"energy_pJ": ""}, {"new": NEW}, f"{TABLE}: row 1: energy_pJ: this key is missing"),
        ({"energy_pJ": "0"}, {"new": NEW}, f"{TABLE}: row 1: energy_pJ: "),
        ({"energy_by_memory_pJ": "dram"}, {"new": NEW}, f"{TABLE}: row 1: energy_by_memory_pJ.dram: "),
        ({"energy_by_memory_pJ": "dram=1;flash=2"}, {"new": NEW}, f"row 1: {HOME} has no memory 'flash'"),
        ({"machine": "abacus"}, {"new": NEW}, "nobody says what the memories of 'abacus' are called here"),
        ({}, {"old": NEW}, f"{TABLE}: row 1: {NETWORKS} has no network 'new': add it"),
        ({}, {"new": {**NEW, "layers": []}}, f"{NETWORKS}: new: layers: "),
        ({}, {"new": {**NEW, "layers": [{**CONV, "kind": "lstm"}]}}, f"{NETWORKS}: new: layers.0.kind: "),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_in_one_sentence(
    cells: dict[str, str], networks: dict[str, object], said: str, tmp_path: Path
):
    with pytest.raises(FadiffError) as refused:
        read_reference(write_reference(tmp_path, [CELLS | cells], networks))
    assert said in str(refused.value)


# Schedules of a cell


def chain() -> Workload:
    """Three 3x3 convolutions of 16 channels, without padding; maps of 40, 38 and 36 rows and columns."""
    return Workload(
        "chain",
        tuple(
            Layer(
                f"l{i}", "mac", Dims(K=16, C=16, P=size, Q=size, R=3, S=3), (Input(f"l{i - 1}" if i else None),),
                pad=(0, 0),
            )
            for i, size in enumerate((40, 38, 36))
        ),
    )  # fmt: skip


def test_every_kind_of_schedule_of_a_toy_is_found_and_freedom_never_costs_energy():
    workload = chain()
    found, _ = least_energies(workload, MACHINE, [(36, 5), (12, 12)], budget_s=60)
    assert set(found) == {(SINGLE, None), (WHOLE, None), (TILED, (36, 5)), (TILED, (12, 12)), (BEST, None)}
    energy = {kind: one.energy_pj for kind, one in found.items()}
    assert energy[BEST, None] <= min(energy.values()) * (1 + 1e-3), "fewer cycles break ties"
    assert energy[WHOLE, None] <= energy[SINGLE, None]
    assert not found[SINGLE, None].schedule.fused_edges
    assert all(group.iterations == 1 for group in found[WHOLE, None].schedule.groups)
    assert told_groups(found[TILED, (36, 5)].schedule) == "l0-l2 36x5"
    assert told_groups(found[TILED, (12, 12)].schedule) == "l0-l2 12x12"
    assert energy[SINGLE, None] / energy[BEST, None] > 1.2, "two of four maps stay on chip"


def test_a_stack_is_cut_into_as_many_tiles_as_defines_makes():
    workload = chain()
    assert tiled(workload, ("l0", "l1", "l2"), (5, 36)) == Group(("l0", "l1", "l2"), Trips(P=1, Q=8))
    assert tiled(workload, ("l1",), (4, 4)) == Group(("l1",))


# Differences and their causes


def made_up(row: Row, *, groups: str = "", **changes: float) -> Row:
    """A row of ours: DeFiNES' own, with more or less energy in some memories, or other DRAM traffic."""
    spent = row.energy_by_node_pj()
    traffic = {name: changes.pop(name) for name in list(changes) if name.endswith("_bytes")}
    spent |= {name: spent[name] + more * row.energy_pj for name, more in changes.items()}
    return row.model_copy(
        update={
            "groups": groups,
            "energy_pj": sum(spent.values()),
            "mac_pj": spent.pop("mac"),
            "memory_pj": spent,
            **traffic,
        }
    )


def depth_first(reference: Reference) -> Row:
    return next(row for row in rows_of(reference, HOME, WORK) if row.tile == (4, 72))


@pytest.mark.parametrize(
    ("groups", "changes", "cause", "memories"),
    [
        ("l0-l7 4x68", {"activation_l1": 0.1, "activation_l2": 0.2}, Cause.HELD_OUTSIDE,
         ("activation_l2", "activation_l1")),
        ("l0-l7 4x68", {"weight_l2": 0.1, "weight_l1": 0.3}, Cause.WEIGHTS_AGAIN, ("weight_l1", "weight_l2")),
        ("", {"weight_l2": 0.4}, Cause.MAPPING, ("weight_l2",)),
        ("l0-l7 4x68", {"output_register": 0.4}, Cause.MAPPING, ("output_register",)),
        ("l0-l7 4x68", {"DRAM": 0.4, "output_bytes": 1e7, "input_bytes": 2e6}, Cause.UNFUSED_HERE, ("DRAM",)),
        ("l0-l7 4x68", {"DRAM": -0.4, "output_bytes": 1e6, "input_bytes": 0.0}, Cause.UNFUSED_THERE, ("DRAM",)),
        ("", {"DRAM": 0.4, "input_bytes": 1e6}, Cause.HALOS_HERE, ("DRAM",)),
        ("", {"DRAM": -0.2, "input_bytes": 1e5}, Cause.HALOS_THERE, ("DRAM",)),
        ("", {"DRAM": 0.4, "weight_bytes": 1e6}, Cause.WEIGHTS_HERE, ("DRAM",)),
        ("", {"DRAM": -0.2, "weight_bytes": 10.0}, Cause.WEIGHTS_THERE, ("DRAM",)),
    ],
)  # fmt: skip
def test_a_difference_has_the_cause_that_its_memories_and_traffic_tell(
    groups: str, changes: dict[str, float], cause: Cause, memories: tuple[str, ...], reference: Reference
):
    theirs = depth_first(reference)
    pair = Pair(made_up(theirs, groups=groups, **changes), theirs, kept_bytes=9e7)
    parts = pair.parts()
    assert (parts[0].cause, parts[0].memories) == (cause, memories)
    assert parts[0].share == pytest.approx(sum(v for name, v in changes.items() if not name.endswith("_bytes")))
    assert sum(part.share for part in parts) == pytest.approx(pair.more)


def test_tensors_that_defines_sends_through_the_outer_memories_too_are_no_cause(reference: Reference):
    large = next(row for row in rows_of(reference, HOME, WORK) if row.tile == (60, 72))
    ours = made_up(large, groups="l0-l7 60x68", activation_l2=0.2)
    assert Pair(ours, large, kept_bytes=9e7).parts()[0].cause is Cause.MAPPING
    tpu = next(row for row in rows_of(reference, "tpu-like-df", WORK) if row.tile == (4, 72))
    ours = made_up(tpu, groups="l0-l7 4x68", weight_l2=0.2)
    assert Pair(ours, tpu, kept_bytes=9e7).parts()[0].cause is Cause.MAPPING


def test_every_cause_is_explained():
    assert set(EXPLANATIONS) == set(Cause)


def our_rows(reference: Reference, machine: str = HOME, workload: str = WORK) -> list[Row]:
    """A cell of ours that takes a fifth more energy in activation_l2 in tiles of 4x72; the best are tiles of 60x72."""
    theirs = rows_of(reference, machine, workload)
    plain = [made_up(row) for row in theirs if row.schedule in (SINGLE, WHOLE)]
    by_tile = {row.tile: row for row in theirs if row.overlap_mode == "fully_cached"}
    slow = made_up(by_tile[4, 72], groups="l0-l7 4x68", activation_l2=0.2)
    large = made_up(by_tile[60, 72], groups="l0-l7 60x68")
    best = large.model_copy(update={"schedule": BEST, "tile_ox": None, "tile_oy": None, "stopped": "budget"})
    return [*plain, slow, large, best]


def test_gains_are_single_layers_over_the_best(reference: Reference):
    (one,) = comparisons(our_rows(reference), reference.rows)
    ours, theirs = one.gains
    assert theirs == pytest.approx(20265261895.0 / 1813734143.4), "11.2, as its authors say"
    assert ours == pytest.approx(20265261895.0 / 2154699943.1)
    assert one.best.more == pytest.approx(2154699943.1 / 1813734143.4 - 1)
    assert {name: round(pair.more, 6) for name, pair in one.pairs.items() if name != "best"} == {
        "single layers": 0, "layer by layer": 0, "depth first, 4x72": 0.2, "depth first, 60x72": 0,
    }  # fmt: skip


def test_a_machine_on_which_defines_fuses_nothing_is_compared_with_its_single_layers(reference: Reference):
    (theirs,) = rows_of(reference, "tpu-like", WORK)
    fused = made_up(theirs, groups="l0-l7 960x12", DRAM=-0.75, input_bytes=5e5, output_bytes=8e6)
    best = fused.model_copy(update={"schedule": BEST, "overlap_mode": "fully_cached"})
    (one,) = comparisons([made_up(theirs), best], reference.rows)
    assert one.whole is None
    assert one.gains == pytest.approx((4, 1))
    assert one.best.parts()[0].cause is Cause.UNFUSED_THERE


# The experiment


def as_cells(row: Row, budget_s: float) -> dict[str, object]:
    """A row of ours as the file has it."""
    cells = row.model_dump(by_alias=True)
    energies = ";".join(f"{name}={energy}" for name, energy in row.memory_pj.items())
    return {"budget_s": budget_s, **cells, "energy_by_memory_pJ": energies}


@pytest.fixture
def desk(tmp_path: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk at which the cell of a quick run is done by looking it up."""

    def work(cell: Cell) -> list[dict[str, object]]:
        assert (cell.machine, cell.workload) == (HOME, WORK)
        return [as_cells(row, cell.budget_s) for row in our_rows(reference)]

    monkeypatch.setattr(defines, "cell_rows", work)
    return Desk("defines", tmp_path, quick=True)


def test_the_page_tells_energies_gains_tiles_and_large_differences(desk: Desk):
    page = run_experiment(desk).read_text()
    line = table_after(page, "| network, machine | single layers")[f"{WORK}, {HOME}"]
    assert line[0] == "20.265 / 20.265 (+0.0%)"
    assert line[2:] == ["2.155 / 1.814 (+18.8%)", "9.41", "11.17", "l0-l7 60x68", "4x72"]
    assert "3 of 5 energies agree within 15%" in page
    flat = " ".join(page.split())
    place = f"{WORK}, {HOME}"
    assert f"- {place}, depth first, 4x72: 20% more energy here, +20% in activation_l2 (*held further out*)." in flat
    assert f"- {place}, best: 19% more energy here, " in flat
    assert f"- {place}, gain: 9.4 here and 11.2 there, since the best schedule takes 19% more here, and single" in flat
    assert "- *held further out*: here a fused tensor lives in" in flat
    assert "- *halos again there*: " not in flat, "no difference has this cause"
    assert f"The free search was out of time on {place}." in flat
    for suffix in (".csv", ".png", ".svg"):
        assert desk.file(suffix).stat().st_size > 1000


def test_cells_that_are_in_the_file_are_not_searched_again(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    before = run_experiment(desk).read_text()

    def fails(cell: Cell) -> list[dict[str, object]]:
        raise AssertionError(f"{cell} was done before")

    monkeypatch.setattr(defines, "cell_rows", fails)
    assert run_experiment(desk).read_text() == before


def test_a_damaged_row_of_ours_is_told(desk: Desk):
    run_experiment(desk)
    desk.file(".csv").write_text(desk.file(".csv").read_text().replace("fully_cached", "half_cached"))
    with pytest.raises(FadiffError, match=r"defines-quick\.csv: row 3: overlap_mode: "):
        run_experiment(desk)


def test_a_full_run_looks_at_every_cell_of_the_table(tmp_path: Path, reference: Reference, monkeypatch):
    seen: list[Cell] = []
    monkeypatch.setattr(defines, "measure", lambda desk, cells, *_: seen.extend(cells) or [])
    monkeypatch.setattr(defines, "draw", lambda *_: "")
    run_experiment(Desk("defines", tmp_path))
    assert {(cell.machine, cell.workload) for cell in seen} == {(row.machine, row.workload) for row in reference.rows}
    assert {cell.budget_s for cell in seen} == {defines.BUDGET_S}


def test_a_network_is_a_value_of_its_file(reference: Reference):
    assert Network.model_validate(NEW).layers[0].sources == [-1]
    assert reference.networks["fsrcnn"].layers[7].K == 16
