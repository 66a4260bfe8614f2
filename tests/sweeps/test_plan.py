"""Plans: what a file says, and what is wrong with it."""

from pathlib import Path
from typing import Any

import pytest

from fadiff.errors import FadiffError
from fadiff.sweeps import plan as module
from fadiff.sweeps.plan import read_plan

SMALL = "mobilenet_v1:size=32"
PLAN: dict[str, Any] = {"networks": SMALL, "machines": "eyeriss", "methods": "greedy"}


def test_a_plan_is_the_product_of_its_axes():
    grid = {"base": "gemmini-large", "set": {"l2": ["64 KB", "128 KB"], "rows": [16, 32]}}
    cells = read_plan(
        PLAN | {"machines": ["eyeriss", grid], "objectives": ["edp", "energy"], "seeds": [0, 1], "budget": "1.5m"}
    )
    assert len(cells) == 1 * 5 * 1 * 2 * 2 == len({*cells})
    assert {cell.budget_s for cell in cells} == {90.0}
    assert str(cells[0]) == f"{SMALL} on eyeriss, greedy, seed 0"
    assert str(cells[-1]) == f"{SMALL} on gemmini-large:l2=128KB,rows=32, greedy, energy, seed 1"
    assert dict(cells[-1].values) == {"l2": 131072, "rows": 32}, "numbers to calculate with"
    assert len({cell.stem for cell in cells}) == len(cells)


def test_cells_of_one_structure_are_kin():
    grid = {"base": "gemmini-large", "set": {"l2": ["64 KB", "128 KB"]}}
    one, other, third = (cell.kin for cell in read_plan(PLAN | {"machines": [grid, "eyeriss"]}))
    assert one == other != third


def test_cells_of_machines_alike_learn_from_the_most_central_of_so_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_PUPILS", 3)
    grid = {"base": "gemmini-large", "set": {"rows": [16, 32], "l2": ["64 KB", "96 KB", "128 KB", "256 KB"]}}
    cells = read_plan(PLAN | {"machines": [grid, "eyeriss"], "methods": ["exact", "greedy"]})
    exact = [cell for cell in cells if cell.method == "exact"]
    sizes = [cell.pioneer and dict(cell.pioneer.values) for cell in exact]
    kb = 1024
    assert sizes == [{"rows": rows, "l2": l2 * kb} for rows in (16, 32) for l2 in (96, 96, 256, 256)] + [None]
    assert not any(cell.pioneer for cell in cells if cell.method == "greedy")
    assert not any(cell.pioneer for cell in read_plan(PLAN | {"machines": grid, "methods": "exact", "alone": True}))


def test_the_pioneer_is_the_most_central_machine_in_whatever_order_they_are_listed():
    grid = {"base": "gemmini-large", "set": {"l2": ["1 MB", "96 KB", "64 KB"], "l1": ["128 KB", "16 KB", "64 KB"]}}
    cells = read_plan(PLAN | {"machines": grid, "methods": "exact"})
    assert {cell.pioneer and cell.pioneer.values for cell in cells} == {(("l2", 96 * 1024), ("l1", 64 * 1024))}


def test_a_file_that_changed_makes_another_cell(tmp_path: Path):
    chip = tmp_path / "chip.yaml"
    prints: list[str] = []
    for rows in (8, 8, 16):
        chip.write_text(f"name: chip\nrows: {rows}\ncols: 8\nl1: 4 KB\nl2: 16 KB\n")
        prints.append(read_plan(PLAN | {"machines": str(chip)})[0].fingerprint)
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"networks": ["resnet19"]}, r"the plan: model 'resnet19' is unknown \(did you mean resnet18\?\)"),
        ({"machines": ["eyeris"]}, r"the plan: eyeris: no built-in hardware .* \(did you mean eyeriss\?\)"),
        ({"methods": ["gredy"]}, r"the plan: method 'gredy' is unknown \(did you mean greedy\?\)"),
        ({"objectives": ["area"]}, r"the plan: objective 'area' is unknown"),
        ({"budget": "long"}, r"the plan: budget 'long' is no duration"),
        ({"seeds": [-1]}, r"the plan: seeds.0: input should be greater than or equal to 0"),
        ({"seeds": [2**32]}, r"the plan: seeds.0: input should be less than or equal to 4294967295"),
        ({"networks": []}, r"the plan: networks: nothing is listed: name at least one"),
        ({"machines": []}, r"the plan: machines: nothing is listed"),
        ({"seeds": [0, 0]}, r"the plan: seeds: 0 is listed twice: list it once"),
        ({"machnes": []}, r"the plan: machnes: this key is unknown \(did you mean machines\?\): correct it"),
        ({"colour": "red"}, r"the plan: colour: this key is unknown: remove it"),
        ({"machines": [{"base": "eyeriss", "set": {}}]}, r"machines.0.set: .* at least 1 item"),
        ({"machines": [{"base": "eyeriss"}]}, r"machines.0.set: this key is missing"),
        ({"machines": [{"bse": "eyeriss", "set": {"a": 1}}]}, r"machines.0.bse: this key .* \(did you mean base\?\)"),
        ({"machines": [{"base": "eyeriss", "set": {"a": []}}]}, r"machines.0.set.a: nothing is listed"),
        ({"machines": [{"base": "eyeriss", "set": {"a": {"from": 1, "to": 2}}}]}, r"machines.0.set.a: list the values"),
        ({"machines": [{"base": "eyeriss", "set": {"a": [*range(30000)]}}]}, r"cells: 20,000 can be in a plan"),
        ({"budget": 30}, r"the plan: budget: write one duration with its unit, such as 30s \(it is 30\)"),
        ({"machines": [3]}, r"machines.0: this must be a mapping of keys to values"),
        ({"machines": [{"base": "eyeriss", "set": {"a.b": 1}}]}, r"the plan: eyeriss: there is no 'a.b' to set"),
        ({"machines": [{"base": "eyeriss", "set": {"clock": ["1 GHz", "1GHz"]}}]}, r"clock=1GHz' is listed twice"),
    ],
)  # fmt: skip
def test_a_plan_that_will_not_do_is_told(change: dict[str, Any], wrong: str):
    with pytest.raises(FadiffError, match=wrong):
        read_plan(PLAN | change)


def test_a_file_of_another_kind_is_called_by_its_name(tmp_path: Path):
    (tmp_path / "chip.yaml").write_text("name: chip\nrows: 8\ncols: 8\nl1: 4 KB\nl2: 16 KB\n")
    with pytest.raises(FadiffError, match="this is a description of hardware, not the plan of a sweep"):
        read_plan(tmp_path / "chip.yaml")
