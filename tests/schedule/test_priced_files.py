"""The priced schedule files: legal, worth what they state, and unchanged by writing and reading."""

import json

import pytest

from examples import FILES, FIRST, FIRST_FILES, SECOND_FILES, first, second
from fadiff.cost.checked import load_schedule, save_schedule
from fadiff.cost.evaluate import evaluate
from fadiff.schedule import Group, Trips
from fadiff.schedule.file import read_schedule, schedule_to_json
from fadiff.workload import Dims

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_all_priced_schedules_are_here():
    assert len(SECOND_FILES) == 40
    assert len(FIRST_FILES) == 36


@every_file
def test_a_priced_schedule_is_legal_and_costs_what_its_file_states(path):
    schedule, (_, stated) = load_schedule(path), read_schedule(path)
    assert stated is not None
    for key, value in stated.model_dump().items():
        assert getattr(evaluate(schedule), key) == pytest.approx(value, rel=1e-9), key
    assert [layer.name for layer in schedule.workload.layers] == [
        layer["name"] for layer in json.loads(path.read_text())["workload"]["layers"]
    ]


@every_file
def test_a_schedule_survives_writing_and_reading(path, tmp_path):
    """Also one of edition 1, which is written as edition 2."""
    schedule = load_schedule(path)
    evaluation = save_schedule(tmp_path / "again.json", schedule)
    written = json.loads((tmp_path / "again.json").read_text())
    assert written == schedule_to_json(schedule, evaluation.stated())
    assert written["format"] == "fadiff-schedule/2"
    again = load_schedule(tmp_path / "again.json")
    assert again == schedule
    assert evaluate(again).stated() == evaluation.stated() == read_schedule(tmp_path / "again.json")[1]
    save_schedule(tmp_path / "and_again.json", again)
    assert (tmp_path / "and_again.json").read_bytes() == (tmp_path / "again.json").read_bytes()


def test_the_same_values_are_read_as_were_written():
    """The reader against a plain reading of the JSON."""
    for path in SECOND_FILES:
        data, schedule = json.loads(path.read_text()), load_schedule(path)
        assert [node.name for node in schedule.machine.nodes] == [
            node.get("memory") or node["axis"] for node in data["hardware"]["nodes"]
        ]
        for name, keys in data["mappings"].items():
            found = schedule.mappings[name]
            for node, factors in zip(schedule.machine.nodes, found.factors, strict=True):
                assert factors == Dims(**keys.get(node.name, {}))
            for memory, order in zip(schedule.machine.memories, found.orders, strict=True):
                assert order == keys.get("order", {}).get(memory.name, "GNPQKCRS")
        for group, given_group in zip(schedule.groups, data["groups"], strict=True):
            assert group == Group(
                tuple(given_group["layers"]), Trips(**given_group.get("trips", {})), given_group.get("loops", "GNPQ")
            )


def test_a_file_has_one_line_per_layer_node_group_and_mapping(tmp_path):
    schedule = second("eyeriss_residual_fused")
    save_schedule(tmp_path / "written.json", schedule)
    lines = (tmp_path / "written.json").read_text().splitlines()
    layers, nodes, mappings = len(schedule.workload.layers), len(schedule.machine.nodes), len(schedule.mappings)
    heads, groups = 7, len(schedule.groups)
    assert len(lines) == heads + layers + nodes + groups + mappings
    assert [line for line in lines if line.startswith('  {"name": "b"')]
    assert [line for line in lines if line.startswith('  "b": {')]


# Edition 1.


def test_a_file_of_edition_1_is_read_as_the_gemmini_it_meant():
    machine = first("r1_resid").machine
    data = json.loads((FIRST / "small" / "r1_resid.json").read_text())["hardware"]
    assert [node.name for node in machine.nodes] == ["DRAM", "scratchpad", "cols", "accumulator", "rows", "registers"]
    dram, scratchpad, accumulator, registers = machine.memories
    cols, rows = machine.axes
    assert (cols.size, cols.dims) == (data["cols"], "".join(data["spatial"]["cols"]))
    assert (rows.size, rows.dims) == (data["rows"], "".join(data["spatial"]["rows"]))
    assert (scratchpad.bytes, scratchpad.keeps, scratchpad.fuses) == (data["l2_bytes"], "WI", True)
    assert (accumulator.bytes, accumulator.keeps, accumulator.word_bits) == (data["l1_bytes"] / data["cols"], "O", 32)
    assert (registers.bytes, registers.keeps, registers.words_per_cycle) == (1, "W", None)
    for memory, level in ((dram, "L3"), (scratchpad, "L2"), (accumulator, "L1"), (registers, "L0")):
        assert memory.read_pj == memory.write_pj == data["pj"][level]
    assert machine.bits.spilled == 8 * data["spill_words"]


def test_lanes_of_edition_1_stand_at_the_axis_that_takes_them():
    schedule = first("d1_dwpw")
    data = json.loads((FIRST / "small" / "d1_dwpw.json").read_text())["mappings"]
    for name, keys in data.items():
        factors = {
            node.name: f for node, f in zip(schedule.machine.nodes, schedule.mappings[name].factors, strict=True)
        }
        unrolled = Dims(**keys["spatial"])
        assert factors["cols"] == Dims(K=unrolled.K, G=unrolled.G)
        assert factors["rows"] == Dims(C=unrolled.C, R=unrolled.R, S=unrolled.S)
        for node, level in (("DRAM", "L3"), ("scratchpad", "L2"), ("accumulator", "L1"), ("registers", "L0")):
            assert factors[node] == Dims(**keys[level])
