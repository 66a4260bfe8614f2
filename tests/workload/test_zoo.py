"""The zoo against the literature: published counts, closed formulas, and whole networks written out."""

import doctest
import json
from pathlib import Path

import pytest

import fadiff.workload.zoo
from fadiff.workload import Layer, Workload, WorkloadError, describe, load_model, zoo_names
from fadiff.workload.file import workload_to_json

GOLDEN = Path(__file__).parent / "golden"
IMAGE = ("resnet18", "resnet50", "vgg16", "vgg19", "mobilenet_v1", "mobilenet_v2")
BLOCKS = ("gpt3-6.7b", "bert-base", "llama-7b")

# Multiply-accumulates at 224x224 as the literature rounds them, in 10^9, and exactly.
MACS = {
    "resnet18": (1.814, 1_814_073_344),
    "resnet50": (4.089, 4_089_184_256),
    "vgg16": (15.47, 15_470_264_320),
    "vgg19": (19.63, 19_632_062_464),
    "mobilenet_v1": (0.5687, 568_740_352),
    "mobilenet_v2": (0.3008, 300_774_272),
}
# Weights in 10^6 (no biases, no batch norms), and exactly.
WEIGHTS = {
    "resnet18": (11.68, 11_678_912),
    "resnet50": (25.50, 25_502_912),
    "vgg16": (138.3, 138_344_128),
    "vgg19": (143.7, 143_652_544),
    "mobilenet_v1": (4.209, 4_209_088),
    "mobilenet_v2": (3.470, 3_469_760),
}
# All parameters of the released models, and how many of them each batch norm holds per channel (in the two VGGs every
# layer has biases instead; elsewhere only the classifier has).
RELEASED = {
    "resnet18": (11_689_512, 2),
    "resnet50": (25_557_032, 2),
    "vgg16": (138_357_544, 0),
    "vgg19": (143_667_240, 0),
    "mobilenet_v1": (4_253_864, 4),
    "mobilenet_v2": (3_504_872, 2),
}


def four_digits(value: float) -> float:
    return float(f"{value:.4g}")


@pytest.mark.parametrize("name", IMAGE)
def test_image_networks_have_the_published_multiply_accumulates(name: str) -> None:
    rounded, exact = MACS[name]
    assert load_model(name).macs == exact
    assert four_digits(exact / 1e9) == rounded


@pytest.mark.parametrize("name", IMAGE)
def test_image_networks_have_the_published_weights(name: str) -> None:
    rounded, exact = WEIGHTS[name]
    assert load_model(name).parameter_words == exact
    assert four_digits(exact / 1e6) == rounded


@pytest.mark.parametrize("name", IMAGE)
def test_weights_with_norms_and_biases_are_the_released_model(name: str) -> None:
    total, per_norm = RELEASED[name]
    model = load_model(name)
    macs = [layer for layer in model.layers if layer.is_mac]
    if per_norm:
        extra = per_norm * sum(layer.channels for layer in macs[:-1]) + macs[-1].channels
    else:
        extra = sum(layer.channels for layer in macs)
    assert model.parameter_words + extra == total


@pytest.mark.parametrize(
    ("name", "width", "ffn_weights", "macs", "weights"),
    [
        ("gpt3-6.7b:seq=2048", 4096, 2 * 4096 * 16384, 446_676_598_784, 201_326_592),
        ("bert-base:seq=512", 768, 2 * 768 * 3072, 4_026_531_840, 7_077_888),
        ("llama-7b:seq=2048", 4096, 3 * 4096 * 11008, 448_824_082_432, 202_375_168),
    ],
)
def test_blocks_follow_the_closed_formula(name: str, width: int, ffn_weights: int, macs: int, weights: int) -> None:
    seq = int(name.rpartition("=")[2])
    model = load_model(name)
    assert model.parameter_words == 4 * width**2 + ffn_weights == weights
    # Both attention products cost seq*seq*width: queries x keys x head width, summed over the heads.
    assert model.macs == seq * weights + 2 * seq**2 * width == macs
    assert model == load_model(name.partition(":")[0])


def test_a_gpt3_block_has_the_published_multiply_accumulates() -> None:
    assert four_digits(load_model("gpt3-6.7b").macs / 1e9) == 446.7


def test_thirty_two_llama_blocks_embeddings_and_norms_are_the_released_model() -> None:
    embeddings, norms = 2 * 32000 * 4096, (2 * 32 + 1) * 4096
    assert load_model("llama-7b:repeat=32").parameter_words + embeddings + norms == 6_738_415_616


def test_twelve_bert_blocks_and_the_rest_are_the_released_model() -> None:
    embeddings, norms = (30522 + 512 + 2) * 768, (2 * 12 + 1) * 2 * 768
    biases, pooler = 12 * (4 * 768 + 3072 + 768), 768 * 768 + 768
    blocks = load_model("bert-base:repeat=12").parameter_words
    assert blocks + embeddings + norms + biases + pooler == 109_482_240


def test_thirty_two_gpt3_blocks_and_embeddings_make_the_name() -> None:
    embeddings = (50257 + 2048) * 4096
    assert round((load_model("gpt3-6.7b:repeat=32").parameter_words + embeddings) / 1e9, 1) == 6.7


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_whole_networks_are_as_written_out(golden: Path) -> None:
    assert workload_to_json(load_model(golden.stem)) == json.loads(golden.read_text(encoding="utf-8"))


def count(model: Workload, **features: object) -> int:
    return sum(all(getattr(layer, key) == value for key, value in features.items()) for layer in model.layers)


def test_resnet50_has_its_layers() -> None:
    model = load_model("resnet50")
    assert (count(model, kind="mac"), count(model, kind="add")) == (54, 16)  # 1 + 16*3 + 4 down + fc
    assert [edge.source for edge in model.producers["l1.0.add"]] == ["l1.0.conv3", "l1.0.down"]
    assert model["l1.0.down"].stride == (1, 1)  # widens 64 channels to 256 without striding
    assert (model["l2.0.conv1"].stride, model["l2.0.conv2"].stride) == ((1, 1), (2, 2))


def test_mobilenet_v2_has_its_layers() -> None:
    model = load_model("mobilenet_v2")
    assert (count(model, kind="mac"), count(model, kind="add")) == (53, 10)  # 2 + 17*3 - 1 unexpanded + fc
    assert [edge.source for edge in model.producers["b3.add"]] == ["b3.project", "b2.project"]
    assert model["b3.project"].epilogue == ()  # linear bottleneck


def test_llama_gates_its_feed_forward_network() -> None:
    model = load_model("llama-7b")
    product = model["product"]
    assert (product.kind, product.dims.K) == ("add", 11008)
    assert [edge.source for edge in model.producers["product"]] == ["gate", "up"]
    assert model["gate"].epilogue == ("silu",)
    assert [edge.target for edge in model.consumers["add1"]] == ["gate", "up", "add2"]
    assert model["q_proj"].epilogue == ("scale", "reshape")


@pytest.mark.parametrize("name", BLOCKS)
def test_attention_reads_activations_on_its_weight_ports(name: str) -> None:
    model = load_model(name)
    assert [edge.source for edge in model.edges if edge.port == "weight"] == ["k_proj", "v_proj"]


@pytest.mark.parametrize("name", IMAGE)
def test_batch_multiplies_the_work_of_an_image_network_and_not_its_weights(name: str) -> None:
    one, three = load_model(name), load_model(f"{name}:batch=3")
    assert three.macs == 3 * one.macs
    assert three.parameter_words == one.parameter_words
    assert {layer.dims.N for layer in three.layers} == {3}


@pytest.mark.parametrize("name", BLOCKS)
def test_batch_in_a_block_is_more_tokens_and_more_heads(name: str) -> None:
    one, two = load_model(f"{name}:seq=64"), load_model(f"{name}:seq=64,batch=2")
    assert (two["q_proj"].dims.N, two["add1"].dims.N) == (128, 128)
    for product in ("qk", "av"):
        assert (two[product].dims.G, two[product].dims.N) == (2 * one[product].dims.G, 64)
    assert two.macs == 2 * one.macs


@pytest.mark.parametrize("name", BLOCKS)
def test_repeat_is_carried_by_every_layer(name: str) -> None:
    assert {layer.repeat for layer in load_model(name).layers} == {1}
    assert {layer.repeat for layer in load_model(f"{name}:repeat=7").layers} == {7}


@pytest.mark.parametrize("name", IMAGE)
@pytest.mark.parametrize("size", [32, 33, 97, 225, 299])
def test_image_networks_take_images_of_any_size(name: str, size: int) -> None:
    model = load_model(f"{name}:size={size}")
    first: Layer = model.layers[0]
    assert -(-size // first.stride[0]) == first.dims.P
    assert model.layers[-1].dims.K == 1000


# What the released models put above and to the left of an image, for each size of kernel.
PADDING = {1: 0, 3: 1}


@pytest.mark.parametrize("name", IMAGE)
@pytest.mark.parametrize("size", [32, 33, 97, 224, 299])
def test_convolutions_are_padded_as_published(name: str, size: int) -> None:
    model = load_model(f"{name}:size={size}")
    inner = [edge for edge in model.edges if edge.port == "input" and "flatten" not in model[edge.source].epilogue]
    assert len(inner) > 10
    for edge in inner:
        layer = model[edge.target]
        for axis, rows in enumerate(model[edge.source].stored):
            assert layer.pad_before(axis, rows) == PADDING[(layer.dims.R, layer.dims.S)[axis]], layer.name


def test_options_show_in_the_name_where_they_are_not_the_default() -> None:
    assert load_model("resnet18:batch=1,size=224") == load_model("resnet18")
    assert load_model("resnet18: size = 64 , batch=2").name == "resnet18:size=64,batch=2"


def test_every_model_is_described_in_one_line() -> None:
    assert zoo_names() == (*IMAGE, *BLOCKS)
    for name in zoo_names():
        assert "options" in describe(name)
        assert "\n" not in describe(name)
    assert "one block" in describe("llama-7b")


def test_a_model_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(workload_to_json(load_model("vgg16"))), encoding="utf-8")
    assert load_model(str(path)) == load_model("vgg16")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ResNet-18", "model 'ResNet-18' is unknown (did you mean resnet18?): use one of resnet18, resnet50"),
        ("bert", "model 'bert' is unknown (did you mean bert-base?)"),
        ("zzz", "model 'zzz' is unknown: use one of"),
        ("", "model '' is unknown: use one of"),
        ("a\nb", r"model 'a\nb' is unknown: use one of"),
        ("net.pb", "or a file, whose name ends in .yaml, .yml, .json, .onnx, .pt2"),
        ("resnet18:bach=2", "resnet18: option 'bach' is unknown (did you mean batch?): the keys are batch, size"),
        ("resnet18:seq=2", "resnet18: option 'seq' is unknown: the keys are batch, size"),
        ("gpt3-6.7b:size=2", "the keys are seq, batch, repeat"),
        ("resnet18:", "resnet18: option '' is not key=value: the keys are batch, size"),
        ("resnet18:batch", "resnet18: option 'batch' is not key=value"),
        ("resnet18:batch=1,batch=2", "resnet18: option 'batch' is given twice"),
        ("resnet18:batch=0", "resnet18: batch is '0': give a whole number from 1 to 2147483647"),
        ("resnet18:batch=-1", "resnet18: batch is '-1': give a whole number"),
        ("resnet18:batch=1.5", "resnet18: batch is '1.5': give a whole number"),
        ("resnet18:batch=", "resnet18: batch is '': give a whole number"),
        ("resnet18:batch=٣", "give a whole number"),
        ("resnet18:batch=" + "9" * 5000, "give a whole number"),
        ("resnet18:batch=2147483648", "give a whole number"),
        ("resnet18:batch=2147483647,size=2147483647", "layer 'conv1': it has more than 2^53 MACs"),
        ("gpt3-6.7b:seq=2147483647", "layer 'q_proj': it has more than 2^53 MACs"),
        ("gpt3-6.7b:seq=2147483647,batch=2", "layer 'q_proj': dimension N is too large"),
        ("vgg16:size=31", "vgg16:size=31: five poolings by 2 need images of at least 32x32"),
    ],
)
def test_a_bad_spec_is_told_in_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        load_model(spec)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_not_taken_for_a_model() -> None:
    with pytest.raises(Exception, match=r"resnet18\.yaml: there is no such file"):
        load_model("resnet18.yaml")


def test_an_unknown_name_has_no_description() -> None:
    with pytest.raises(WorkloadError, match="model 'alexnet' is unknown"):
        describe("alexnet")


def test_the_examples_in_the_documentation_hold() -> None:
    results = doctest.testmod(fadiff.workload.zoo)
    assert results.attempted > 0
    assert results.failed == 0
