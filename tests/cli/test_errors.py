"""Whatever is wrong with an input, the user reads sentences that name file, place and remedy; the exit code is 2."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import MACHINE, NETWORK, fadiff, refusal, schedule_file, write
from fadiff.cli import machines
from fadiff.search import METHODS

BAD_NETWORKS = {
    "cyclic graph": (
        NETWORK.replace("inputs: [{from: null, port: input}]", "inputs: [{from: b, port: input}]"),
        ("cycle", "a -> b -> a", "remove one"),
    ),
    "shape mismatch": (NETWORK.replace("{K: 8, C: 8,", "{K: 8, C: 16,"), ("a", "b", "8 channels", "16")),
    "unknown key": (NETWORK.replace("repeat: 2", "repeats: 2"), ("layers.1.repeats", "unknown", "spelling")),
    "unknown operator": (NETWORK.replace("relu", "rleu"), ("layers.0.epilogue.0", "rleu")),
    "tabs": (NETWORK.replace("\nlayers:\n  -", "\nlayers:\n\t-"), ("line 3", "spaces, not tabs")),
    "empty": ("", ("empty",)),
}
BAD_MACHINES = {
    "negative capacity": (MACHINE.replace("l1: 4 KB", "l1: -4 KB"), ("l1", "greater than 0", "-4096")),
    "unknown unit": (MACHINE.replace("l1: 4 KB", "l1: 4 bushels"), ("l1", "64 KB", "bushels")),
    "unknown key": (MACHINE + "l3: 1 MB\n", ("l3", "unknown")),
    "missing key": (MACHINE.replace("rows: 8\n", ""), ("rows", "missing", "add it")),
    "tabs": (MACHINE + "pj:\n\tmac: 1\n", ("line 7", "spaces, not tabs")),
}


@pytest.mark.parametrize("case", BAD_NETWORKS)
def test_a_bad_network_is_refused_in_one_sentence(case: str, tmp_path: Path):
    text, parts = BAD_NETWORKS[case]
    path = write(tmp_path, "net.yaml", text)
    for command in (("show", path), ("optimize", path, "-o", tmp_path / "out.json")):
        assert_sentence(refusal(*command), path, *parts)
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("case", BAD_MACHINES)
def test_a_bad_machine_is_refused_in_one_sentence(case: str, tmp_path: Path):
    text, parts = BAD_MACHINES[case]
    path = write(tmp_path, "chip.yaml", text)
    for command in (("hardware", path), ("optimize", "resnet18", "--hardware", path, "-o", tmp_path / "out.json")):
        assert_sentence(refusal(*command), path, *parts)
    assert not (tmp_path / "out.json").exists()


def wrong_factor(data: dict[str, Any]) -> None:
    data["mappings"]["a"].setdefault("DRAM", {})["K"] = 3


def wrong_factors(data: dict[str, Any]) -> None:
    wrong_factor(data)
    data["mappings"]["b"]["registers"]["C"] = 2


def unknown_key(data: dict[str, Any]) -> None:
    data["mappings"]["a"]["L4"] = {}


def wrong_order(data: dict[str, Any]) -> None:
    data["mappings"]["a"]["order"]["DRAM"] = "GNPQKCRR"


def negative_capacity(data: dict[str, Any]) -> None:
    data["hardware"]["nodes"][1]["bytes"] = -1


def lost_layer(data: dict[str, Any]) -> None:
    del data["groups"][1]


BAD_SCHEDULES: dict[Callable[[dict[str, Any]], None], tuple[str, ...]] = {
    wrong_factor: ("factors", "a: K is 8", "idle"),
    unknown_key: ("mappings.a", "'L4' is no node of chip"),
    wrong_order: ("mappings.a", "GNPQKCRR"),
    negative_capacity: ("hardware.nodes.1.bytes", "-1"),
    lost_layer: ("groups leave out", "'b'"),
}


@pytest.mark.parametrize("command", ["evaluate", "verify"])
@pytest.mark.parametrize("damage", BAD_SCHEDULES, ids=lambda damage: damage.__name__)
def test_a_bad_schedule_is_refused_in_one_sentence(
    damage: Callable[[dict[str, Any]], None], command: str, tmp_path: Path
):
    path = damaged(tmp_path, damage)
    assert_sentence(refusal(command, path), path, *BAD_SCHEDULES[damage])


def test_every_broken_rule_has_its_line(tmp_path: Path):
    path = damaged(tmp_path, wrong_factors)
    lines = refusal("evaluate", path).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["factors", "factors", "fits"]
    assert all(line.startswith(str(path)) for line in lines)


def test_json_that_was_cut_short_is_refused_where_it_ends(tmp_path: Path):
    path = schedule_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2], encoding="utf-8")
    assert_sentence(refusal("evaluate", path), path, "line", "cut short")


@pytest.mark.parametrize(
    "command",
    [("show", "gone.yaml"), ("hardware", "gone.yaml"), ("evaluate", "gone.json"), ("verify", "gone.json")],
    ids=lambda command: command[0],
)
def test_a_file_that_is_not_there_is_named(command: tuple[str, str]):
    assert_sentence(refusal(*command), command[1], "no such file", "check the path")


def test_unknown_names_come_with_what_is_known(tmp_path: Path):
    out = tmp_path / "out.json"
    assert "did you mean resnet18?" in refusal("optimize", "resnet19", "-o", out)
    assert "did you mean resnet18?" in refusal("show", "resnet19")
    assert "gemmini-large" in refusal("optimize", "resnet18", "--hardware", "gemini-large", "-o", out)
    assert "greedy" in refusal("optimize", "resnet18", "--method", "gredy", "-o", out)
    assert "seq" in refusal("show", "bert-base:sequence=12")
    assert refusal("hardware", "").startswith("'': no built-in hardware has this name")
    assert not out.exists()


def test_a_missing_output_folder_is_found_before_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(METHODS, "exact", lambda *_: pytest.fail("it searched"))
    path = tmp_path / "missing" / "out.json"
    assert_sentence(refusal("optimize", "resnet18", "-o", path), path, "does not exist", "create it")
    assert_sentence(refusal("optimize", "resnet18", "-o", tmp_path), tmp_path, "folder")
    assert list(tmp_path.iterdir()) == []
    file = write(tmp_path, "notes", "buy milk")
    assert_sentence(refusal("optimize", "resnet18", "-o", file / "out.json"), f"{file} is a file, and no folder")
    assert_sentence(refusal("optimize", "resnet18", "-o", "x" * 300), "File name too long: check its name")


def test_an_existing_schedule_survives_a_failed_run(tmp_path: Path):
    path = schedule_file(tmp_path)
    before = path.read_bytes()
    chip = write(tmp_path, "small.yaml", MACHINE.replace("l1: 4 KB", "l1: 8 B"))
    assert "give it more bytes" in refusal("optimize", tmp_path / "net.yaml", "--hardware", chip, "-o", path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [("optimise",), ("show",), ("show", "resnet18", "--jsno"), ("verify", "x", "--seed", "-1")]
)
def test_misuse_exits_with_2(arguments: tuple[str, ...]):
    result = fadiff(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(machines, "builtin_machines", interrupt)
    result = fadiff("hardware")
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_a_full_disk_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machines, "builtin_machines", full)
    assert refusal("hardware") == (
        "output: No space left on device: check its name, its permissions, and the room on its disk"
    )


def test_too_large_a_network_is_no_traceback(monkeypatch: pytest.MonkeyPatch):
    def out_of_memory() -> None:
        raise MemoryError

    monkeypatch.setattr(machines, "builtin_machines", out_of_memory)
    assert "not enough memory" in refusal("hardware")


def assert_sentence(sentence: str, *parts: object) -> None:
    assert "\n" not in sentence
    for part in parts:
        assert str(part) in sentence


def damaged(folder: Path, damage: Callable[[dict[str, Any]], None]) -> Path:
    path = schedule_file(folder)
    data = json.loads(path.read_text(encoding="utf-8"))
    damage(data)
    return write(folder, "damaged.json", json.dumps(data))


def test_results_replace_neither_what_is_read_nor_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    net, chip = write(tmp_path, "net.yaml", NETWORK), write(tmp_path, "chip.yaml", MACHINE)
    model = write(tmp_path, "model.onnx", "not read")
    (tmp_path / "link.yaml").symlink_to(net)
    for command, told in (
        (("optimize", net, "-o", "net.yaml"), "net.yaml: this would replace a file that is read"),
        (("optimize", net, "--trace", "link.yaml"), "link.yaml: this would replace a file that is read"),
        (("optimize", net, "-H", chip, "--report", "chip.yaml"), "chip.yaml: this would replace a file that is read"),
        (("import", model, "-o", "model.onnx"), "model.onnx: this would replace a file that is read"),
        (("optimize", net, "-o", "new", "--trace", tmp_path / "new"), "two results would be written to this file"),
    ):
        assert told in refusal(*command)
    assert net.read_text(encoding="utf-8") == NETWORK
    assert chip.read_text(encoding="utf-8") == MACHINE
    assert not (tmp_path / "new").exists()


def test_a_result_takes_the_place_of_a_circle_of_links(tmp_path: Path):
    net, loop = write(tmp_path, "net.yaml", NETWORK), tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert fadiff("optimize", net, "-m", "greedy", "-o", loop).exit_code == 0
    assert not loop.is_symlink()
    assert loop.is_file()


def test_devices_take_any_number_of_results(tmp_path: Path):
    net = write(tmp_path, "net.yaml", NETWORK)
    assert fadiff("optimize", net, "-m", "greedy", "-o", "/dev/null", "--trace", "/dev/null").exit_code == 0


def test_a_folder_or_file_that_is_no_network_is_not_taken_for_a_name(tmp_path: Path):
    assert refusal("show", tmp_path) == (
        f"{tmp_path}: this folder has no config.json of a Hugging Face model: name a file in it"
    )
    text = write(tmp_path, "notes.txt", "buy milk")
    assert refusal("optimize", text).startswith(f"{text}: the name of a network's file ends in .yaml, .yml, .json, ")


def test_what_is_imported_is_written_under_a_name_that_can_be_read(tmp_path: Path):
    missing, output = tmp_path / "net.onnx", tmp_path / "net.txt"
    assert refusal("import", missing, "-o", output) == (
        f"{output}: the name of a network's file ends in .yaml, .yml, .json: choose such a name"
    )
