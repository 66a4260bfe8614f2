"""DOSA's networks and machine, and the tables beside its results."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fadiff.reproduce.dosa import experiment
from fadiff.reproduce.dosa.networks import NETWORKS, network
from fadiff.reproduce.experiment import Desk, run, with_section
from fadiff.search.codesign import CodesignSettings, Design, Question, codesign
from fadiff.workload import Workload, load_model
from reproduce.pages import table_after, write_csv


def shapes(workload: Workload) -> Counter[object]:
    found = Counter[object]()
    for layer in workload.layers:
        if layer.is_mac:
            found[layer.dims, layer.stride] += layer.repeat
    return found


def test_its_resnet50_has_the_layers_of_resnet50():
    assert shapes(network("resnet50")) == shapes(load_model("resnet50"))


@pytest.mark.parametrize("name", NETWORKS)
def test_chains_have_the_same_layers(name: str):
    alone, chained = network(name), network(name, fused=True)
    assert shapes(alone) == shapes(chained)
    assert not alone.edges
    assert chained.edges
    assert all(edge.fusible for edge in chained.edges)


def test_an_access_costs_what_its_law_says():
    space = experiment.read_dosa_space(array=False)
    assert [number.name for number in space.numbers] == ["sums", "scratchpad.bytes"]
    machine = space.at([16 * 1024, 108 * 1024])
    dram, scratchpad, accumulator, registers = machine.memories
    assert scratchpad.read_pj == scratchpad.write_pj == pytest.approx(0.48746172 + 0.0251257 * 108)
    assert accumulator.read_pj == pytest.approx(32 / 8 * (0.48746172 + 0.0251257 * 16 / 16))
    assert (dram.read_pj, registers.read_pj, machine.mac_pj, machine.bits.spilled) == (100, 0.48746172, 0.5608, 8)
    assert (scratchpad.words_per_cycle, machine.peak_macs) == (32, 256)
    assert experiment.read_dosa_space(array=True).at([16384, 110592, 16, 16]).nodes == machine.nodes


def test_both_tables_are_told_beside_what_was_published(tmp_path: Path):
    share = {"given": 1.0, "given-cut": 0.96, "free": 0.9, "free-cut": 0.87, "free-fused": 0.8}
    rows = [
        {
            **experiment.Cell(name, question, experiment.BUDGET_S)._asdict(),
            "scratchpad_kb": 106.0, "accumulator_kb": 14.5, "rows": 64, "cols": 32, "energy_uj": 1.0, "cycles": 1.0,
            "edp_uj_cycles": share.get(question, 0.25) * experiment.PUBLISHED[name].edp_uj_cycles, "machines": 3,
        }
        for name in NETWORKS for question in experiment.QUESTIONS
    ]  # fmt: skip
    write_csv(tmp_path / "results" / "dosa.csv", rows)
    page = run(Desk("dosa", tmp_path)).read_text()
    first, second = table_after(page, "| network | DOSA"), table_after(page, "| network | array")
    assert first["bert"] == ["5.86e+09", "108/16", "1.000", "0.960", "0.900", "0.870", "0.800", "106/14.5"]
    assert first["geometric mean"][2:7] == ["1.000", "0.960", "0.900", "0.870", "0.800"]
    assert second["unet"] == ["0.250", "0.250", "0.250", "64x32", "106/14.5"]


def test_a_row_is_what_the_search_found():
    (row,) = experiment._rows(experiment.Cell("bert", "given", 1.0))
    assert (row["scratchpad_kb"], row["accumulator_kb"], row["rows"]) == (108, 16, 16)
    assert float(str(row["edp_uj_cycles"])) > 0.9 * experiment.PUBLISHED["bert"].edp_uj_cycles


def test_the_whole_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    small = {"bert": experiment.PUBLISHED["bert"]}
    monkeypatch.setattr(experiment, "NETWORKS", tuple(small))
    monkeypatch.setattr(experiment, "PUBLISHED", small)
    monkeypatch.setattr(experiment, "QUICK_BUDGET_S", 0.5)
    searched = []

    def quick(question: Question, settings: CodesignSettings) -> Design:
        searched.append((len(question.space.numbers), bool(question.workloads[0].edges), settings.exact_factors))
        return codesign(question, replace(settings, method="greedy", proposals="climb"))

    monkeypatch.setattr(experiment, "design_of", quick)
    run(Desk("dosa", tmp_path, quick=True))
    free = [(2, False, True), (2, False, False), (2, True, False)]
    assert searched == [*free, *((4, fused, exact) for _, fused, exact in free)]


def test_the_page_tells_the_rows_that_stand_beside_it():
    docs = Path(__file__).resolve().parents[2] / "docs"
    told = experiment.tell(Desk("dosa", Path("docs")), Desk("dosa", docs).rows())
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert with_section(page, "dosa", told) == page
