"""The ablation: its arithmetic on rows made up here, and a trial of a toy."""

from pathlib import Path

import pytest

from fadiff.reproduce import ablation, bounds
from fadiff.reproduce.experiment import Desk, run
from fadiff.search.optimize import optimize
from reproduce.pages import table_after, write_csv


def test_the_ablation_tells_how_far_variants_are_from_the_bound(tmp_path: Path):
    rows = [
        {
            "variant": variant, "cell": cell, "seed": 0, "edp_uj_cycles": 12.0 if variant == "whole method" else 15.0,
            "legal_share": "" if "no descent" in variant else 0.25, "seconds": 1.0,
        }
        for variant in ablation.VARIANTS for cell in ablation.CELLS
    ]  # fmt: skip
    write_csv(tmp_path / "results" / "ablation.csv", rows)
    told = table_after(run(Desk("ablation", tmp_path)).read_text(), "| variant")
    assert list(told) == list(ablation.VARIANTS)
    assert set(told["whole method"]) == {"1.000, 25%"}, "no bound is known: the lowest EDP is the measure"
    proof = bounds.Proof("vgg16", "gemmini-small", bounds.METHOD, 0, bounds.BUDGET_S, "any")
    write_csv(tmp_path / "results" / "bounds.csv", [{**proof._asdict(), "bound_edp_uj_cycles": 10.0}])
    told = table_after(run(Desk("ablation", tmp_path)).read_text(), "| variant")
    assert told["whole method"] == ["1.000, 25%", "1.000, 25%", "1.000, 25%", "1.200, 25%"]
    assert told["whole method, no descent"] == ["1.250", "1.250", "1.250", "1.500"]


def test_variants_differ_from_the_whole_method():
    options = list(ablation.VARIANTS.values())
    assert all(options[i] != options[j] for i in range(len(options)) for j in range(i))


def test_the_ablation_runs_a_trial_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FADIFF_CACHE_DIR", "")
    network = tmp_path / "toy.yaml"
    network.write_text(
        "name: toy\nlayers:\n"
        "- {name: a, kind: mac, dims: {K: 8, C: 4, P: 4, Q: 4}, inputs: [{from: null, port: input}]}\n"
        "- {name: b, kind: mac, dims: {K: 4, C: 8, P: 4, Q: 4}, inputs: [{from: a, port: input}]}\n"
    )
    (row,) = ablation._row(ablation.Trial("whole method, no descent", f"{network}/gemmini-small", 0))
    exact = optimize(str(network), "gemmini-small", method="exact", budget_seconds=1e9)
    assert row["edp_uj_cycles"] == exact.best.edp_uj_cycles
    assert row["legal_share"] is None
