"""Co-design against other searches: its spaces, rows, curves and tables."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fadiff.reproduce.codesign import experiment, runs
from fadiff.reproduce.codesign.experiment import AREA_MM2, SPACES, Cell, read_study_space
from fadiff.reproduce.experiment import Desk, run
from fadiff.search.codesign import CodesignSettings, Design, Question, codesign
from fadiff.search.codesign.samplers import SAMPLERS
from reproduce.pages import table_after
from search.codesign.tiny import ONE, SPACE, asked


@pytest.mark.parametrize(("name", "nodes"), [(SPACES[0], 6), (SPACES[1], 7)])
def test_a_space_of_the_study_has_machines_on_both_sides_of_the_area(name: str, nodes: int):
    space = read_study_space(name)
    assert len(space.machine.nodes) == nodes
    assert space.machine.fused_in() is not None
    smallest, largest = (float(space.area_mm2(np.log(end))) for end in (space.smallest, space.largest))
    assert smallest < AREA_MM2 / 4
    assert largest > 4 * AREA_MM2


def points(proposals: str, seed: int, *found: tuple[float, float]) -> list[dict[str, str]]:
    cell = {name: str(value) for name, value in Cell("net", "space", proposals, seed, 60.0)._asdict().items()}
    return [cell | {"seconds": str(seconds), "edp_uj_cycles": str(edp)} for seconds, edp in found]


def test_tables_tell_the_mean_of_the_seeds_over_the_least_of_all(tmp_path: Path):
    (tmp_path / "results").mkdir()
    rows = [
        *points("descent", 0, (20, 120), (50, 100)),
        *points("descent", 1, (10, 144), (40, 121)),
        *points("climb", 0, (5, 200), (62, 110)),
        *points("climb", 1, (35, 200)),
    ]
    told = experiment.tell(Desk("codesign", tmp_path), rows, ["descent", "climb"], {"tpe": "optuna"})
    assert "`tpe` is left out, since optuna is not installed." in " ".join(told.split())
    table = table_after(told, "| net, space")
    assert table["descent"] == ["-", "1.315", "1.100", "1.100", "1.210"]
    assert table["climb"] == ["-", "-", "2.000", "1.483", "2.000"]
    assert table_after(told, "| all, geometric mean")["climb"] == table["climb"][:4]
    assert (tmp_path / "results" / "codesign.svg").exists()


def test_rows_are_the_times_at_which_something_better_was_found():
    design = codesign(asked(0.03), CodesignSettings(budget_seconds=2, proposals="filling", method="greedy"))
    rows = experiment._points(Cell("one-of-the-zoo", "tiny", "filling", 0, 5.0), design)
    edp = [float(str(row["edp_uj_cycles"])) for row in rows]
    assert edp == sorted(edp, reverse=True)
    assert edp[0] == design.rows[0].costs["one"]["edp_uj_cycles"]
    assert str(rows[-1]["machine"]).startswith("scratchpad.bytes=")


def test_the_whole_experiment_runs_and_goes_on_from_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(experiment, "load_model", lambda name: replace(ONE, name=name))
    monkeypatch.setattr(experiment, "read_study_space", lambda name: SPACE)
    monkeypatch.setattr(experiment, "AREA_MM2", 0.03)
    monkeypatch.setattr(experiment, "PROPOSALS", {"climb": "climbs", "filling": "fills", "tpe": "is not there"})
    monkeypatch.setattr(experiment, "SAMPLERS", {"tpe": SAMPLERS["tpe"]._replace(needs=("no_such_package",))})
    monkeypatch.setattr(experiment, "QUICK_BUDGET_S", 0.5)

    def quick(question: Question, settings: CodesignSettings) -> Design:
        return runs.design_of(question, replace(settings, method="greedy"))

    monkeypatch.setattr(experiment, "design_of", quick)
    desk = Desk("codesign", tmp_path, quick=True)
    page = run(desk).read_text()
    assert "`tpe` is left out, since no_such_package is not installed." in " ".join(page.split())
    assert list(table_after(page, "| resnet18, gemmini")) == ["climb", "filling"]
    monkeypatch.setattr(experiment, "design_of", lambda *_: pytest.fail("rows that are there are not measured again"))
    assert run(desk).read_text() == page


def test_what_runs_of_a_place_share_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    searched = list[object]()

    def watched(*args: object, **rest: object) -> None:
        searched.append(args)

    monkeypatch.setattr(runs, "optimize", watched)
    monkeypatch.setattr(runs, "_compiled", set[object]())
    for proposals in ("climb", "filling"):
        runs.design_of(asked(0.03), CodesignSettings(0.1, 0, proposals, method="greedy"))
    assert len(searched) == 1


def test_a_budget_is_time_of_a_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "_compile", lambda question, settings: None)
    began = time.process_time()
    design = runs.design_of(asked(0.03), CodesignSettings(0.2, 0, "filling", method="greedy"))
    assert 0 < design.rows[-1].seconds <= time.process_time() - began
