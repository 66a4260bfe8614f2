"""What is left out of an export is told: nothing is dropped in silence."""

from dataclasses import replace
from pathlib import Path

import pytest

from fadiff.cost import load_schedule
from fadiff.errors import FadiffError
from fadiff.export import EXPORTERS, export
from fadiff.export.exported import folder_names, plain_names
from fadiff.hardware import Vector
from fadiff.workload import Dims, Input, Layer, Workload

PRICED = Path(__file__).parents[1] / "schedules2"
GOLDEN = Path(__file__).parents[1] / "data" / "exchange"


def told(name: str, to: str = "timeloop", **changes: object) -> dict[str | None, list[str]]:
    schedule = load_schedule(PRICED / f"{name}.json")
    found: dict[str | None, list[str]] = {}
    for remark in export(replace(schedule, machine=replace(schedule.machine, **changes)), to).remarks:
        found.setdefault(remark.layer, []).append(remark.text)
    return found


@pytest.mark.parametrize("to", EXPORTERS)
def test_fusion_shared_trips_and_sums_of_tensors_are_told_layer_by_layer(to: str):
    found = told("gemmini_down_fused", to)
    for name in "ubds":
        assert any(text.startswith("fused in a group of 4 that shares 5 trips over P: ") for text in found[name])
    assert "an add layer has no mapping: it is left out" in found["s"]
    assert found[None] == ["transfers of DRAM do not overlap with work on gemmini-db: cycles will be fewer"]


def test_a_channel_loop_is_a_shared_loop():
    assert any("trips over X" in text for texts in told("gemmini_ffn_x_cut").values() for text in texts)


def test_pooling_is_told():
    assert told("gemmini_first_pool")["c"] == [
        "of 56x56 outputs 28x28 are stored after its epilogue: all are counted as stored"
    ]


def test_a_vector_unit_is_told():
    found = told("gemmini_first_pool", vector=Vector(16, 0.1))
    assert any("operations on the vector unit: they are not counted" in text for text in found["c"])


def test_memories_of_values_of_several_widths_are_told():
    assert "sram holds values of 8 and 32 bits: each counts as one of 8" in told("os_conv")[None]
    assert "unfinished sums go to HBM with 32 bits: they count as values of 8" in told("tpu_gemm_spill")["fc"]


def test_cut_ends_are_told_but_not_lost():
    exported = export(load_schedule(PRICED / "gemmini_conv.json"), "timeloop")
    assert exported.lost == []
    (remark,) = exported.remarks
    assert "written with remainders" in remark.text


def test_a_layer_that_breaks_a_rule_on_its_own_is_told():
    schedule = load_schedule(PRICED / "gemmini_odd_rows_fused.json")
    small = [replace(node, bytes=300) if node.name == "accumulator" else node for node in schedule.machine.nodes]
    found = export(replace(schedule, machine=replace(schedule.machine, nodes=tuple(small))), "timeloop").lost
    assert any("on its own it breaks the rule fits: " in remark.text for remark in found)


def test_every_remark_is_in_the_readme():
    exported = export(load_schedule(PRICED / "nvdla_bottleneck.json"), "timeloop")
    page = exported.files["README.md"]
    assert all(remark.text in page for remark in exported.remarks)
    assert "Nothing." not in page


def test_names_of_folders_are_plain_and_different():
    names = ["conv", "Conv", "a/b", "a_b", "ü", "x" * 300, "x" * 299]
    made = plain_names(names)
    assert made[:5] == ["conv", "Conv_2", "a_b", "a_b_2", "_"]
    assert len({name.casefold() for name in made}) == len(names)
    layers = tuple(Layer(name, "mac", Dims(K=2), (Input(None),)) for name in names)
    assert all(path.startswith("layers/") for path in folder_names(Workload("net", layers)).values())


def test_a_tool_that_is_not_known_is_refused():
    with pytest.raises(
        FadiffError, match="'maestro' is no tool that schedules are written for: use one of timeloop, zigzag"
    ):
        export(load_schedule(PRICED / "os_conv.json"), "maestro")


@pytest.mark.parametrize(("to", "name"), [("timeloop", "gemmini_down_fused"), ("zigzag", "gemmini_first_pool")])
def test_files_are_as_they_were_written_out(to: str, name: str):
    files = export(load_schedule(PRICED / f"{name}.json"), to).files
    golden = {str(path.relative_to(GOLDEN / to)): path for path in (GOLDEN / to).rglob("*") if path.is_file()}
    assert files.keys() == golden.keys()
    for path, text in files.items():
        assert text == golden[path].read_text(encoding="utf-8"), path
