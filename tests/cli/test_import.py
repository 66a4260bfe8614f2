"""`fadiff import`, and ONNX files in `fadiff show` and `fadiff optimize`."""

import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from cli.command import answer, fadiff, refusal
from fadiff.cost import load_schedule
from fadiff.workload import load_workload
from fadiff.workload.importers import import_onnx
from workload.importers.graphs import GraphBuilder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions, a gate and a sum, with an open batch."""
    net = GraphBuilder()
    x = net.input("image", ("batch", 3, 16, 16))
    a = net.add("Relu", net.conv(x, (3, 8), 3, name="a"))
    b = net.add("MaxPool", net.conv(a, (8, 8), 3, norm=False, name="b"), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.add("Slice", net.add("Add", a, b, name="sum"), net.integers(0), net.integers(4), net.integers(1), name="part")
    net.conv("part", (4, 2), norm=False, name="c")
    return net.save(tmp_path, "c")


@pytest.fixture
def mystery(tmp_path: Path) -> Path:
    """A model with an operator nobody knows."""
    net = GraphBuilder()
    y = net.conv(net.input("image", (1, 3, 16, 16)), (3, 8), 3, norm=False, name="a")
    net.conv(net.add("Mystery", y, name="mystery", domain="mine"), (8, 4), norm=False, name="b")
    proto = net.model("b")
    proto.graph.value_info.append(helper.make_tensor_value_info("mystery", TensorProto.FLOAT, (1, 8, 16, 16)))
    path = tmp_path / "mystery.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def lines(*arguments: object) -> list[str]:
    result = fadiff(*arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_the_account_names_what_became_of_everything(model: Path):
    told = lines("import", model, "--dim", "batch=1")
    assert "Conv layers 3 205 K 810" in told
    assert "Relu epilogues 1" in told
    assert "a BatchNormalization, Relu 55.3 K 216" in told
    assert "b MaxPool 147 K 576" in told
    assert "sum c (input) Slice part takes a part of it" in told
    assert "layers 4, 1 of them sums and elementwise products" in told
    assert "edges 4, 3 of them can fuse" in told
    assert "MACs 204,800" in told
    assert "parameters 842; weights of layers 800" in told
    assert "not modelled nothing" in told


def test_the_account_as_json_is_the_report(model: Path):
    found = answer("import", model, "--shape", "image=2x3x16x16")
    report = import_onnx(model, dims={"batch": 2}).report
    assert found["workload"]["totals"]["macs"] == report.macs == found["report"]["macs"]
    assert [edge["fusible"] for edge in found["report"]["edges"]] == [edge.fusible for edge in report.edges]
    assert [row["type"] for row in found["report"]["folded"]] == [row.type for row in report.folded]
    assert found["report"]["operators"][0] == {
        "type": "Conv", "count": 3, "macs": report.macs, "parameters": 810, "became": "layers",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["net.yaml", "net.json"])
def test_the_network_can_be_saved_and_used(model: Path, name: str, tmp_path: Path):
    path = tmp_path / name
    assert f"Written to {path}." in fadiff("import", model, "--dim", "batch=1", "-o", path).stdout.replace("\n", "")
    assert load_workload(path) == import_onnx(model, dims={"batch": 1}).workload


def test_show_and_optimize_take_the_file_itself(model: Path, tmp_path: Path):
    shown = answer("show", model, "--dim", "batch=3")
    assert {layer["dims"]["N"] for layer in shown["layers"]} == {3}
    schedule = tmp_path / "schedule.json"
    found = answer("optimize", model, "--dim", "batch=1", "--method", "greedy", "-o", schedule)
    assert found["workload"] == "model"
    assert load_schedule(schedule).workload == import_onnx(model, dims={"batch": 1}).workload
    command = json.loads(schedule.read_text(encoding="utf-8"))["made_by"]["command"]
    assert "--dim batch=1" in command


def test_what_is_not_modelled_is_told_with_its_share(mystery: Path, tmp_path: Path):
    told = lines("import", mystery)
    assert "Mystery mystery nobody here knows this operator ? 0 2.05 K 2.05 K" in told
    assert "not modelled 1 operator whose MACs nobody knows: 1 x Mystery because nobody here knows this" in told
    path = tmp_path / "net.yaml"
    sentence = refusal("import", mystery, "--strict", "-o", path)
    assert "not all of it is modelled: Mystery 'mystery' (nobody here knows this operator)" in sentence
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "the sizes of input 'image' (batch x 3 x 16 x 16) are open: say which to use, such as --dim batch=1"),
        (("--dim", "batch"), "--dim 'batch' is not NAME=VALUE: give one such as --dim input=1"),
        (("--dim", "batch=1", "--dim", "batch=2"), "--dim is given twice for 'batch': give it once"),
        (("--dim", "batch=one"), "--dim batch=one: size 'one' is no whole number"),
        (("--dim", "batch=99999999999"), "size 99999999999 is too large: give one of at most 10 digits"),
        (
            ("--shape", "image=1x3x"),
            "--shape image=1x3x: size '' is no whole number: write sizes such as 224, and shapes such as 1x3x224x224",
        ),
        (("--value", "image=many"), "--value 'many' is no number"),
        (("--dim", "batch=0"), "Conv 'a' has nothing to multiply: 'image' is [0, 3, 16, 16], which is empty"),
        (("--dim", "batch=1", "-o", "nowhere/net.yaml"), "its folder nowhere does not exist"),
    ],
)
def test_options_that_cannot_be_used_are_told_in_a_sentence(model: Path, arguments: tuple[str, ...], told: str):
    assert told in refusal("import", model, *arguments)


def test_only_models_are_imported(tmp_path: Path):
    assert "this is no model that can be read: give an ONNX file (.onnx)" in refusal("import", "resnet18")
    assert "'resnet18' takes no shapes of inputs" in refusal("show", "resnet18", "--dim", "batch=1")
    assert "there is no such file" in refusal("optimize", tmp_path / "nothing.onnx")


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path: Path):
    net = GraphBuilder()
    net.conv(net.input("x", (1, 3, 8, 8)), (3, 4), norm=False, name="[red]a[/red]")
    assert "[red]a[/red]" in fadiff("import", net.save(tmp_path, "[red]a[/red]")).stdout


BLOCKS = Path(__file__).parents[1] / "data" / "models" / "deep.onnx"


def test_many_equal_blocks_become_one_that_repeats():
    told = " ".join(lines("import", BLOCKS))
    assert "layers 4, 1 of them sums and elementwise products" in told
    assert "conv0 (x32)" in told
    assert "32 equal blocks, up to add31, are folded into one that repeats (conv0 to add0)" in told
    assert "add0 head (input) equal blocks are folded into one" in told
    imported = answer("import", BLOCKS)
    assert {layer["name"]: layer.get("repeat", 1) for layer in imported["workload"]["layers"]} == {
        "stem": 1, "conv0": 32, "add0": 32, "head": 1
    }  # fmt: skip


def test_unfolded_blocks_have_the_same_totals(tmp_path: Path):
    costs: list[list[float]] = []
    for options in ((), ("--unfold",)):
        totals = answer("show", BLOCKS, *options)["totals"]
        path = tmp_path / "made.json"
        assert fadiff("optimize", BLOCKS, *options, "-m", "greedy", "-o", path).exit_code == 0
        made = answer("evaluate", path)["totals"]
        counts = [made[key] for key in ("energy_pj", "cycles", "edp_uj_cycles")]
        costs.append([totals["macs"], totals["parameter_words"], *counts])
        assert str(load_schedule(path).made_by["command"]).count("--unfold") == len(options)
    assert costs[1] == pytest.approx(costs[0], rel=1e-12)
    assert answer("show", BLOCKS, "--unfold")["totals"]["layers"] == 66


def test_only_models_from_elsewhere_are_unfolded():
    assert "'resnet18' is taken as it is: leave unfold away" in refusal("show", "resnet18", "--unfold")
