"""Workload files: what is written reads back equal, and whatever else a file holds is refused in one sentence."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fadiff.errors import FadiffError
from fadiff.files import FileError, Strict, parse, validate, write_text
from fadiff.workload import Workload, load_model, load_workload, zoo_names
from fadiff.workload.file import WorkloadModel, workload_to_json

TOY = """
name: toy
layers:
  - name: a
    kind: mac
    dims: {N: 2, K: 64, C: 3, P: 112, Q: 112, R: 7, S: 7}
    stride: [2, 2]
    inputs: [{from: null, port: input}]
    epilogue: [relu, max_pool]
    out: {P: 56, Q: 56}
  - name: b
    kind: mac
    dims: {N: 2, K: 64, C: 64, P: 56, Q: 56, R: 3, S: 3}
    dilation: [1, 1]
    inputs: [{from: a, port: input}]
  - name: s
    kind: add
    dims: {N: 2, K: 64, P: 56, Q: 56}
    inputs: [{from: b, port: addend}, {from: a, port: addend}]
    repeat: 1
"""


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | bytes], Workload]:
    """Loads a workload from the content of a file named net.yaml (the name does not decide the format)."""
    path = tmp_path_factory.mktemp("files") / "net.yaml"

    def load_content(content: str | bytes) -> Workload:
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return load_workload(path)

    return load_content


# --- what is written reads back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*zoo_names(), "resnet18:batch=2,size=65", "bert-base:repeat=12,batch=4"])
def test_every_model_survives_the_round_trip(spec: str, load: Callable[[str], Workload]) -> None:
    model = load_model(spec)
    written = workload_to_json(model)
    assert load(json.dumps(written)) == model
    assert load(yaml.safe_dump(written, sort_keys=False)) == model


def test_yaml_and_json_say_the_same(load: Callable[[str], Workload]) -> None:
    toy = load(TOY)
    assert toy == load(json.dumps(yaml.safe_load(TOY)))
    assert toy["a"].dims.N == 2  # N is a size, and not YAML's short "no"
    assert toy["a"].stored == (56, 56)
    assert toy.topological == ("a", "b", "s")


def test_what_cannot_be_fused_survives_the_round_trip(load: Callable[[str], Workload]) -> None:
    text = TOY.replace("{from: b, port: addend}", "{from: b, port: addend, fusible: false}")
    network = load(text)
    assert [operand.fusible for operand in network["s"].inputs] == [False, True]
    written = workload_to_json(network)
    assert written["layers"][2]["inputs"] == [
        {"from": "b", "port": "addend", "fusible": False},
        {"from": "a", "port": "addend"},
    ]
    assert load(json.dumps(written)) == network
    assert load(TOY.replace("port: input}", "port: input, fusible: true}")) == load(TOY)


@pytest.mark.parametrize("pad", [[1, 1], [0, 2], [0, 0]])
def test_padding_survives_the_round_trip(pad: list[int], load: Callable[[str], Workload]) -> None:
    network = load(layer(1, pad=pad))
    assert network["b"].pad == tuple(pad)
    assert network["a"].pad is None
    written = workload_to_json(network)
    assert written["layers"][1]["pad"] == pad
    assert load(json.dumps(written)) == network


def test_ones_and_defaults_are_left_out_of_the_file(load: Callable[[str], Workload]) -> None:
    written = workload_to_json(load(TOY))
    assert written["layers"][1] == {
        "name": "b",
        "kind": "mac",
        "dims": {"N": 2, "K": 64, "C": 64, "P": 56, "Q": 56, "R": 3, "S": 3},
        "inputs": [{"from": "a", "port": "input"}],
    }


def test_layers_may_come_in_any_order(load: Callable[[str], Workload]) -> None:
    data = yaml.safe_load(TOY)
    data["layers"].reverse()
    assert load(json.dumps(data)).topological == ("a", "b", "s")


@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_matter(mark: str, load: Callable[[bytes], Workload]) -> None:
    assert load(json.dumps(yaml.safe_load(TOY)).encode(mark)).name == "toy"


def test_aliases_spare_repetition(load: Callable[[str], Workload]) -> None:
    twice = TOY.replace("dims: {N: 2, K: 64, P: 56, Q: 56}", "dims: &size {N: 2, K: 64, P: 56, Q: 56}")
    twice += "  - {name: t, kind: add, dims: *size, inputs: [{from: s, port: addend}, {from: b, port: addend}]}\n"
    assert load(twice)["t"].dims == load(TOY)["s"].dims


# --- bad input, one sentence each -------------------------------------------------------------------------------------


def edited(change: Callable[[dict[str, Any]], object]) -> str:
    """The toy file as JSON, after a change."""
    data = yaml.safe_load(TOY)
    change(data)
    return json.dumps(data)


def layer(i: int, **changes: object) -> str:
    return edited(lambda data: data["layers"][i].update(changes))


GIANT = "0x" + "f" * 6000  # an integer that Python refuses to print
# A short text for a value of 2^50 words: each list holds the one before it twice.
BOMB = "[&a0 [x], " + ", ".join(f"&a{i + 1} [*a{i}, *a{i}]" for i in range(50)) + "]"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty: is this the right file?"),
        ("# nothing\n", "the file is empty"),
        ("just words", "the top of the file must be a mapping of keys to values"),
        ("- name: a", "the top of the file must be a mapping"),
        ("[1, 2]", "the top of the file must be a mapping"),
        ("name: a\nlayers:\n\t- name: b", "line 3, column 1: the YAML is not valid (found character '\\t' that "),
        ("name: a\nlayers:\n\t- name: b", "indent with spaces, not tabs"),
        ("name: [a", "line 1, column 9: the YAML is not valid (expected ',' or ']', but got '<stream end>')"),
        ("name: a\n---\nname: b", "the YAML is not valid (but found another document)"),
        ("name: a\nname: b\nlayers: []", "line 2, column 1: the YAML is not valid (key 'name' is given twice)"),
        ("<<: {name: a}", "the YAML is not valid (merge keys (<<) are not supported here)"),
        ("a: &x [*x]", "the YAML is not valid (found unconstructable recursive node)"),
        ("? [a]\n: 1", "the YAML is not valid (found unhashable key)"),
        ("name: !!bool maybe", "the YAML is not valid ('maybe')"),
        ("name: !!timestamp x", "the YAML is not valid ("),
        ("name: !!int ''", "the YAML is not valid ("),
        ("name: !!python/object:os.system x", "could not determine a constructor for the tag"),
        ("name: 2020-99-99", "the YAML is not valid (month must be in 1..12)"),
        ("[" * 3000, "the file is nested too deeply: correct it"),
        (f"name: {GIANT}\nlayers: []", "name: input should be a valid string (it is a very long number)"),
        (f"name: {BOMB}\nlayers: []", "name: input should be a valid string (it is [['x'], [['x'], ['x']], "),
        (f"name: a\nlayers: {BOMB}", "layers.0: this must be a mapping of keys to values (it is ['x'])"),
        ('{"name": "a", "layers": [', "line 1, column 26: the JSON ends or breaks here (expecting value): was the "),
        ('{"name": "a" "layers": []}', "line 1, column 14: the JSON ends or breaks here (expecting ',' delimiter)"),
        ('{"name": "a", "name": "b"}', "the JSON is not valid (key 'name' is given twice): correct it"),
        ('{"name": NaN}', "the JSON is not valid (NaN is not a JSON number)"),
        ('{"name": ' + "9" * 5000 + "}", "the JSON is not valid ("),
        ('{"name": ' + "[" * 100_000, "the file is nested too deeply: correct it"),
        ('{"layers": []}', "name: this key is missing: add it"),
        ('{"name": "a"}', "layers: this key is missing: add it"),
        ('{"name": "a", "layers": []}', "workload 'a' has no layers: give it at least one"),
        ('{"name": "a", "layers": {}}', "layers: input should be a valid list (it is {})"),
        ('{"name": "", "layers": []}', "give it a name of printable characters"),
        ('{"name": "a", "layer": []}', "layer: this key is unknown: remove it or correct its spelling"),
        ('{"a\\nb": 1}', r"'a\nb': this key is unknown"),
        ("1: 2", "1: this key is unknown"),
        (layer(0, strid=[2, 2]), "layers.0.strid: this key is unknown: remove it or correct its spelling"),
        (edited(lambda d: d["layers"][1]["dims"].update(M=3)), "layers.1.dims.M: this key is unknown"),
        (edited(lambda d: d["layers"][1]["inputs"][0].update(source="a")), "layers.1.inputs.0.source: this key is un"),
        (edited(lambda d: d["layers"][1]["inputs"][0].pop("from")), "layers.1.inputs.0.from: this key is missing"),
        (layer(0, dims={"K": -1}), "layers.0.dims.K: input should be greater than 0 (it is -1)"),
        (layer(0, dims={"K": 0}), "layers.0.dims.K: input should be greater than 0 (it is 0)"),
        (layer(0, dims={"K": 1.5}), "layers.0.dims.K: input should be a valid integer (it is 1.5)"),
        (layer(0, dims={"K": "64"}), "layers.0.dims.K: input should be a valid integer (it is '64')"),
        (layer(0, dims={"K": True}), "layers.0.dims.K: input should be a valid integer (it is True)"),
        (layer(0, dims={"K": 10**20}), "layer 'a': dimension K is too large: it is at most 2147483647"),
        (layer(0, dims=None), "layers.0.dims: this must be a mapping of keys to values (it is None)"),
        (layer(0, name=7), "layers.0.name: input should be a valid string (it is 7)"),
        (layer(0, kind="conv"), "layers.0.kind: input should be 'mac' or 'add' (it is 'conv')"),
        (layer(0, stride=[2]), "layers.0.stride: list should have at least 2 items, not 1"),
        (layer(0, stride=[2, 2, 2]), "layers.0.stride: list should have at most 2 items"),
        (layer(0, stride=2), "layers.0.stride: input should be a valid list (it is 2)"),
        (layer(0, pad=[3]), "layers.0.pad: list should have at least 2 items, not 1"),
        (layer(0, pad=[3, -1]), "layers.0.pad.1: input should be greater than or equal to 0 (it is -1)"),
        (layer(0, pad=[3, 7]), "layer 'a': pad of columns is more than its kernel reaches, (R-1)*dilation = 6"),
        (layer(1, pad=[0, 0], dims={"N": 2, "K": 64, "C": 64, "P": 57, "Q": 57, "R": 2, "S": 3}), "56 rows arrive"),
        (layer(2, pad=[0, 0]), "layer 's': an add layer has no padding: leave pad away"),
        (layer(0, epilogue=["swish"]), "layers.0.epilogue.0: input should be 'bias', 'batch_norm'"),
        (layer(0, inputs=[{"from": None, "port": "in"}]), "layers.0.inputs.0.port: input should be 'input', 'weight'"),
        (layer(0, inputs=[]), "layer 'a': a mac layer needs an operand on its input port"),
        (layer(0, inputs=[{"from": "s", "port": "input"}]), "the graph has a cycle, a -> s -> a"),
        (layer(0, inputs=[{"from": "x", "port": "input"}]), "layer 'a' reads from 'x', which is not a layer"),
        (layer(0, name="b"), "two layers are named 'b'"),
        (layer(0, name="a\n"), r"layer 'a\n': give every layer a name of printable characters"),
        (layer(0, name="\ud800"), r"layer '\ud800': give every layer a name of printable characters"),
        (layer(0, out={"P": 56}), "shapes: 'a' -> 'b' (input): 1 columns arrive, the layer reads 58"),
        (layer(0, repeat=0), "layers.0.repeat: input should be greater than 0"),
        (b"\xa9PNG\r\n\x1a\n\x00\xff", "byte 0 is not UTF-8 text: is this the right file?"),
        (b"name: \x00", "the YAML is not valid (unacceptable character #x0000: special characters are not allowed)"),
    ],
)
def test_bad_content_is_told_in_one_sentence(
    content: str | bytes, message: str, load: Callable[[str | bytes], Workload]
) -> None:
    with pytest.raises(FileError) as error:
        load(content)
    assert message in str(error.value)
    assert "net.yaml: " in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 700


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nets.yaml: there is no such file: check the path"):
        load_workload(tmp_path / "nets.yaml")


def test_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="this is a folder: name a file in it"):
        load_workload(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("a\0b.yaml", "no file can have this name"), ("x" * 5000 + ".yaml", "it cannot be read (File name too long)")],
)
def test_impossible_names_are_told(name: str, message: str) -> None:
    with pytest.raises(FileError) as error:
        load_model(name)
    assert message in str(error.value)


def test_numbers_in_files_are_finite() -> None:
    class Energies(Strict):
        mac: float

    for text in ("mac: .inf", "mac: .nan", '{"mac": 1e999}'):
        with pytest.raises(FileError, match=r"e\.yaml: mac: input should be a finite number"):
            validate(Energies, parse(text, "e.yaml"), "e.yaml")


# --- arbitrary input --------------------------------------------------------------------------------------------------

many = settings(deadline=None, max_examples=150)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def loads_or_tells(load: Callable[[str | bytes], Workload], content: str | bytes) -> None:
    """A file either is a workload, which then survives the round trip, or is refused in one line."""
    try:
        net = load(content)
    except FadiffError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017  (that nothing else is raised is the point)
    else:
        assert load(json.dumps(workload_to_json(net))) == net


@many
@given(content=st.text() | st.binary())
@example(content="{")
@example(content="a: !!float ''")
@example(content="- !!omap [a]")
def test_arbitrary_text_loads_or_is_told(content: str | bytes, load: Callable[[str | bytes], Workload]) -> None:
    loads_or_tells(load, content)


@many
@given(text=st.text(st.sampled_from(list("{}[]:,&*!|>%@-?#'\"\\ \n\t\x85a1.<=~")), max_size=40))
def test_arbitrary_punctuation_loads_or_is_told(text: str, load: Callable[[str], Workload]) -> None:
    loads_or_tells(load, text)


@many
@given(value=json_values)
def test_arbitrary_values_load_or_are_told(value: object, load: Callable[[str], Workload]) -> None:
    loads_or_tells(load, json.dumps(value))
    loads_or_tells(load, json.dumps({"name": "a", "layers": value}))


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """The toy file with one value, anywhere, replaced or removed."""
    data = yaml.safe_load(TOY)
    here: Any = data
    while True:
        key = draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        if not (isinstance(here[key], dict | list) and here[key] and draw(st.integers(0, 3))):
            break
        here = here[key]
    if draw(st.booleans()):
        here[key] = draw(
            json_values | st.integers(1, 200) | st.sampled_from(["a", "b", "s", "add", "weight", "reshape"])
        )
    else:
        del here[key]
    return data


@many
@given(value=mutated())
def test_a_changed_file_loads_or_is_told(value: object, load: Callable[[str], Workload]) -> None:
    loads_or_tells(load, json.dumps(value))


@many
@given(at=st.integers(0, len(TOY)), length=st.integers(0, 30), put=st.text(max_size=5))
def test_a_damaged_file_loads_or_is_told(at: int, length: int, put: str, load: Callable[[str], Workload]) -> None:
    loads_or_tells(load, TOY[:at] + put + TOY[at + length :])


@many
@given(end=st.integers(0, 10_000))
def test_a_truncated_file_is_told(end: int, load: Callable[[str], Workload]) -> None:
    whole = json.dumps(yaml.safe_load(TOY))
    with pytest.raises(FileError):
        load(whole[: end % len(whole)])


@many
@given(value=json_values)
def test_values_in_memory_are_checked_the_same(value: object) -> None:
    try:
        validate(WorkloadModel, value, "memory").value()
    except FadiffError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    write_text(path, "old")
    write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    write_text(path, "old")
    with pytest.raises(FileError, match=r"net\.json: it cannot be written"):
        write_text(path, "\ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.json"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_text(link, "text")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "text"


def test_a_device_or_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_text(tmp_path / "net.json", "text")
    assert (tmp_path / "net.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("place", ["nowhere/net.json", "a\0b", "."])
def test_a_place_that_cannot_be_written_is_told(place: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="it cannot be written"):
        write_text(tmp_path / place, "text")
