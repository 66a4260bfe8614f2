"""The machines that come with the package: what they say of themselves, and what was published of them."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from fadiff.files import FileError, validate
from fadiff.hardware import (
    Machine,
    MachineModel,
    Memory,
    builtin_machines,
    load_machine,
    machine_to_json,
    read_machine,
)

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
DESCRIBED = sorted(set(PUBLISHED) - {"about"})


def facts(machine: Machine) -> list[list[Any]]:
    """Keeps, bytes, instances and energies of all memories, in no particular order."""
    return sorted(
        [memory.keeps, memory.bytes or 0, machine.instances(machine.number[memory.name]), *energies(memory)]
        for memory in machine.memories
    )


def energies(memory: Memory) -> tuple[float, float]:
    return (memory.read_pj, memory.write_pj)


def test_the_catalog_holds_machines_of_many_kinds():
    assert builtin_machines() == (
        "ascend-like",
        "ascend-like-df",
        "edge-tpu-like",
        "edge-tpu-like-df",
        "eyeriss",
        "gemmini-default",
        "gemmini-large",
        "gemmini-small",
        "meta-proto-like",
        "meta-proto-like-df",
        "nvdla-large",
        "nvdla-small",
        "simba",
        "simple-output-stationary",
        "tesla-npu-like",
        "tesla-npu-like-df",
        "tpu-like",
        "tpu-like-df",
        "tpu-v1",
        "tpu-v4i",
    )


@pytest.mark.parametrize("name", builtin_machines())
def test_a_machine_of_the_catalog_says_what_it_is_and_where_it_comes_from(name: str):
    file = read_machine(name)
    assert file.machine.name == name
    assert 20 < len(file.description) < 100
    assert all(text and "\n" not in text for text in (file.description, file.source, *file.notes))
    assert file.notes


@pytest.mark.parametrize("name", builtin_machines())
def test_every_memory_of_the_catalog_has_room_for_one_value_of_each_tensor_it_keeps(name: str):
    machine = load_machine(name)
    widths = {"W": machine.bits.W, "I": machine.bits.I, "O": machine.bits.sums}
    for memory in machine.memories[1:]:
        assert sum(widths[tensor] for tensor in memory.keeps) <= 8 * memory.usable_bytes


@pytest.mark.parametrize("name", builtin_machines())
def test_a_machine_of_the_catalog_survives_a_schedule_file(name: str):
    machine = load_machine(name)
    assert validate(MachineModel, json.loads(json.dumps(machine_to_json(machine))), name).value() == machine


@pytest.mark.parametrize("name", builtin_machines())
def test_a_tensor_can_stay_on_chip_where_a_path_leads_from_outputs_to_inputs(name: str):
    machine = load_machine(name)
    fused_in = machine.fused_in()
    if name.startswith("nvdla"):
        assert fused_in is None
    elif name.startswith("gemmini"):
        assert fused_in is not None
        assert fused_in.name == "scratchpad"
    else:
        assert fused_in is not None
        assert {"I", "O"} <= set(fused_in.keeps)


@pytest.mark.parametrize("name", builtin_machines())
def test_depthwise_layers_and_matrix_products_use_more_than_one_lane(name: str):
    machine = load_machine(name)
    for unrolled in ("GPQS", "NKC"):
        assert prod(axis.size for axis in machine.axes if set(axis.dims) & set(unrolled)) >= 8


@pytest.mark.parametrize("name", DESCRIBED)
def test_arrays_and_memories_are_those_that_were_published(name: str):
    machine, published = load_machine(name), PUBLISHED[name]
    assert [axis.size for axis in machine.axes] == published["axes"]
    shown = [[keeps, size] for keeps, size, *_ in facts(machine)]
    stated = sorted([keeps, size or 0] for keeps, size, *_ in published["memories"])
    unknown = [keeps for keeps, size in stated if size == 0 and keeps != "WIO"]  # the accumulator of an NVDLA
    assert [fact for fact in shown if fact[0] not in unknown] == [fact for fact in stated if fact[0] not in unknown]


@pytest.mark.parametrize("name", DESCRIBED)
def test_energies_are_those_that_were_published_and_only_the_others_were_filled_in(name: str):
    file, published = read_machine(name), PUBLISHED[name]
    known = [fact for fact in published["memories"] if fact[3] is not None]
    assert ("mac_pj" in file.filled) == (published["mac_pj"] is None)
    if not known:  # filled in, but for registers: those of a Gemmini
        assert all(
            energies(memory) == (0.48746, 0.48746)
            for memory in file.machine.memories
            if f"{memory.name}.read_pj" not in file.filled
        )
        return
    assert file.filled == {}
    assert file.machine.mac_pj == published["mac_pj"]
    # Of all instances together: where the source shares a register that a list cannot share, its energy is divided.
    for shown, stated in zip(facts(file.machine), sorted([k, b or 0, *rest] for k, b, *rest in known), strict=True):
        assert [shown[2] * pj for pj in shown[3:]] == pytest.approx([stated[2] * pj for pj in stated[3:]], rel=1e-8)


def test_lanes_of_one_pixel_share_the_energy_of_a_weight_register():
    registers = {
        name: load_machine(name).memories[-1].read_pj for name in ("meta-proto-like", "edge-tpu-like", "ascend-like")
    }
    assert registers == {"meta-proto-like": 0.01 / 16, "edge-tpu-like": 0.01 / 16, "ascend-like": 0.01 / 4}


def test_only_machines_that_can_rescale_sums_compute_a_softmax_in_pieces():
    assert [name for name in builtin_machines() if load_machine(name).online_softmax] == [
        "gemmini-large",
        "gemmini-small",
        "tpu-v4i",
    ]


def test_a_misspelt_name_is_told_the_nearest_one_and_all_others():
    with pytest.raises(FileError) as refusal:
        load_machine("gemini-large")
    assert str(refusal.value) == (
        "gemini-large: no built-in hardware has this name (did you mean gemmini-large?): "
        f"choose {', '.join(builtin_machines())}, or a file that ends in .yaml, .yml, .json"
    )


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(FileError, match=r"^zzz: no built-in hardware has this name: choose ascend-like, "):
        load_machine("zzz")
