"""The gradient's place: what its rows tell, and a row that is a search."""

from pathlib import Path

from fadiff.reproduce import deep
from fadiff.reproduce.experiment import Desk, run
from fadiff.search.optimize import optimize
from reproduce.pages import table_after, write_csv


def test_every_method_is_told_over_the_bound_of_its_cell(tmp_path: Path):
    edp = {"exact": 110.0, "joint": 105.0, "descent": ""}
    bound = {deep.CORES: 100.0, "a device": 90.0}
    rows = [
        {
            **deep.DeviceRun(*cell, method, 0, deep.BUDGET_S, device)._asdict(), "edp_uj_cycles": edp[method],
            "reached_s": 7.0, "greedy_edp_uj_cycles": 150.0,
            "bound_edp_uj_cycles": bound[device] if method == "exact" else "", "stopped": "done",
        }
        for cell in deep.CELLS for device in bound for method in deep.METHODS
    ]  # fmt: skip
    write_csv(tmp_path / "results" / "deep.csv", rows)
    told = table_after(run(Desk("deep", tmp_path)).read_text(), "| network, machine | device | exact")
    assert list(told) == [", ".join(cell) for cell in deep.CELLS]
    assert told["resnet18, simba"] == ["a device", "10.0% (7 s)", "5.0% (7 s)", "-", "50.0%", "100"]


def test_a_row_is_what_the_method_itself_found():
    (row,) = deep._row(deep.DeviceRun("different3", "gemmini-small", "greedy", 0, 5.0, deep.CORES))
    same = optimize(deep.different(3), "gemmini-small", method="greedy")
    assert row["edp_uj_cycles"] is None, "the greedy start does not count"
    assert row["greedy_edp_uj_cycles"] == same.best.edp_uj_cycles


def test_no_two_layers_are_of_one_shape():
    layers = deep.different(9).layers
    assert len({layer.dims for layer in layers}) == 9
