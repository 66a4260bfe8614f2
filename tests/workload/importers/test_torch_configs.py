"""Hugging Face configurations: built without weights, counted like PyTorch does, equal to the zoo where it has them."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig

import fadiff
from fadiff.errors import FadiffError
from fadiff.files import FileError
from fadiff.workload import Workload, load_model
from fadiff.workload.importers.torch_front_end.configs import build, example_inputs
from fadiff.workload.importers.torch_models import import_huggingface, import_torch_file, is_torch_file

TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}
SIDE = {"image_size": 32, "patch_size": 8}
CONFIGS = {
    "bert": TINY,
    "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 100},
    "llama": TINY | {"num_key_value_heads": 2},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 100},
    "whisper": {
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 100,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
        "pad_token_id": 0,
    },
    "vit": TINY | SIDE,
    "clip": {
        "text_config": TINY | {"max_position_embeddings": 16, "eos_token_id": 3, "bos_token_id": 1, "pad_token_id": 0},
        "vision_config": TINY | SIDE,
    },
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"},
    "convnext": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "image_size": 64},
    "swin": {"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32},
    "wav2vec2": TINY | {
        "conv_dim": [16, 16], "conv_stride": [50, 4], "conv_kernel": [50, 8], "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0,
    },
    "mamba": {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "vocab_size": 100},
}  # fmt: skip
WITHOUT_TOKENS = ("vit", "resnet", "convnext", "swin", "wav2vec2")


def tensors(inputs):
    """The same inputs on the CPU, so that the model may look at their words."""
    return {name: torch.zeros_like(x, device="cpu") if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}


@pytest.mark.parametrize("model", CONFIGS)
def test_macs_and_parameters_are_those_that_pytorch_counts(model):
    config = AutoConfig.for_model(model, **CONFIGS[model])
    module = build(config, None)
    seq = None if model in WITHOUT_TOKENS else 16
    inputs = tensors(example_inputs(module, config, batch=2, seq=seq, past=0, shapes={}))
    real = type(module)(config).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        real(**inputs)
    report = import_huggingface(config, batch=2, seq=seq).report
    assert report.macs == counter.get_total_flops() // 2
    assert report.parameters == sum(parameter.numel() for parameter in real.parameters())
    assert report.not_modelled == ()


def plain(network: Workload, names: list[str]) -> list[object]:
    """Layers without names of their own, biases left out: the zoo's blocks have none."""
    number = {layer.name: str(i) for i, layer in enumerate(network.layers)}
    return [
        replace(
            layer,
            name=names[i],
            inputs=tuple(sorted((replace(o, source=o.source and number[o.source]) for o in layer.inputs), key=str)),
            epilogue=tuple(operator for operator in layer.epilogue if operator != "bias"),
        )
        for i, layer in enumerate(network.layers)
    ]


@pytest.mark.parametrize(
    ("name", "zoo", "changes"),
    [
        ("bert", "bert-base", {}),
        ("bert", "bert-base:seq=128,batch=4", {}),
        ("llama", "llama-7b", {"max_position_embeddings": 2048}),
        ("llama", "llama-7b:seq=256", {}),
    ],
)
def test_blocks_equal_those_of_the_zoo_layer_by_layer(name, zoo, changes):
    expected = load_model(zoo)
    options = dict(item.split("=") for item in zoo.partition(":")[2].split(",") if item)
    seq = int(options.get("seq", 2048 if name == "llama" else 512))
    architecture = "BertModel" if name == "bert" else "LlamaModel"
    config = AutoConfig.for_model(name, num_hidden_layers=1, **changes)
    if name == "bert":
        config.architectures = None
    network = fadiff.from_huggingface(config, batch=int(options.get("batch", 1)), seq=seq, architecture=architecture)
    # BERT ends with a pooler, which is no part of the block.
    block = Workload("block", network.layers[: len(expected.layers)])
    names = [layer.name for layer in expected.layers]
    assert plain(block, names) == plain(expected, names)
    assert all(edge.fusible for edge in block.edges)


def test_a_stack_of_blocks_does_what_so_many_of_the_zoo_do():
    network = fadiff.from_huggingface(AutoConfig.for_model("bert", num_hidden_layers=3), seq=128)
    assert len(network.layers) == 3 * 10 + 1
    assert sum(layer.macs for layer in network.layers[:-1]) == load_model("bert-base:seq=128,repeat=3").macs


# --- a token after others ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "few"), [("llama", 2), ("llama", 4), ("gpt2", 4)])
def test_a_token_after_a_past_reads_all_keys_and_values_from_dram(model, few):
    """The macs of a sequence of 16 tokens less those of its first 15, with all keys in sight of every token."""
    settings = CONFIGS[model] | ({"num_key_value_heads": few} if model == "llama" else {})
    config = AutoConfig.for_model(model, **settings)
    network = fadiff.from_huggingface(config, batch=3, past=15)
    products = [layer for layer in network.layers if layer.has_weight_port]
    assert [layer.dims[:4] for layer in products] == [(3 * few, 4 // few, 16, 8), (3 * few, 4 // few, 8, 16)]
    assert not any(edge.fusible for edge in network.edges if edge.port == "weight")
    whole = fadiff.from_huggingface(config, batch=3, seq=16)
    assert network.macs * 16 == whole.macs
    assert network.parameter_words == whole.parameter_words


def test_several_tokens_may_come_after_a_past():
    config = AutoConfig.for_model("llama", **CONFIGS["llama"])
    network = fadiff.from_huggingface(config, past=24, seq=8)
    assert network["model.layers.0.self_attn.qk"].dims[:4] == (2, 2 * 8, 32, 8)


@pytest.mark.parametrize(
    ("model", "past", "sentence"),
    [
        ("llama", -1, "past is -1: it is at least 0"),
        ("gpt2", 1024, "past + seq is 1025, but the model has 1024 positions: give 1024 at most"),
        ("t5", 4, "t5 keeps no keys and values of earlier tokens: leave past away"),
        ("mamba", 4, "mamba keeps no keys and values of earlier tokens: leave past away"),
    ],
)
def test_a_past_that_makes_no_sense_is_told_in_one_sentence(model, past, sentence):
    with pytest.raises(FadiffError) as refused:
        fadiff.from_huggingface(AutoConfig.for_model(model, **CONFIGS[model]), past=past)
    assert sentence in str(refused.value)


def test_experts_share_the_tokens():
    config = AutoConfig.for_model("mixtral", **TINY, num_local_experts=4, num_experts_per_tok=2, num_key_value_heads=4)
    imported = import_huggingface(config, seq=16)
    experts = [layer for layer in imported.workload.layers if "experts" in layer.name and layer.is_mac]
    assert [layer.dims[:4] for layer in experts] == [(4, 8, 128, 32), (4, 8, 32, 64)]
    assert imported.report.not_modelled == ()
    assert imported.report.notes == ("experts are taken to get equally many rows each",)
    one = fadiff.from_huggingface(config, past=15)
    chosen = [layer.dims[:4] for layer in one.layers if "experts" in layer.name and layer.is_mac]
    assert chosen == [(2, 1, 128, 32), (2, 1, 32, 64)]


@pytest.mark.parametrize(("seq", "each"), [(15, 8), (17, 9), (127, 64), (3, 2)])
def test_experts_that_cannot_share_evenly_are_all_as_busy_as_the_busiest(seq, each):
    config = AutoConfig.for_model("mixtral", **TINY, num_local_experts=4, num_experts_per_tok=2, num_key_value_heads=4)
    imported = import_huggingface(config, seq=seq)
    experts = [layer for layer in imported.workload.layers if "experts" in layer.name and layer.is_mac]
    assert [layer.dims[:4] for layer in experts] == [(4, each, 128, 32), (4, each, 32, 64)]
    assert imported.report.not_modelled == ()
    told = f"{4 * each / (2 * seq) - 1:.1%} more MACs than they have"
    assert imported.report.notes == (
        f"experts are taken to get {each} rows each, rounded up from {seq / 2:.4g}: {told}",
    )


@pytest.mark.parametrize("seq", [15, 16])
def test_a_shared_expert_runs_on_every_token_beside_the_others(seq):
    settings = {"num_experts": 6, "num_experts_per_tok": 4, "moe_intermediate_size": 16, "num_key_value_heads": 4}
    config = AutoConfig.for_model("qwen2_moe", **TINY, **settings, shared_expert_intermediate_size=48)
    imported = import_huggingface(config, seq=seq)
    shared = [layer.dims[:4] for layer in imported.workload.layers if "shared_expert." in layer.name and layer.is_mac]
    assert shared == [(1, seq, 48, 32), (1, seq, 48, 32), (1, seq, 32, 48)]
    experts = [layer.dims[:4] for layer in imported.workload.layers if ".experts." in layer.name and layer.is_mac]
    each = -(-4 * seq // 6)
    assert experts == [(6, each, 32, 32), (6, each, 32, 16)]
    assert imported.report.not_modelled == ()
    both = imported.workload["layers.0.mlp.add"]
    assert [operand.source for operand in both.inputs] == [
        "layers.0.mlp.experts.grouped_mm_fallback.2.product",
        "layers.0.mlp.shared_expert.down_proj",
    ]


# --- which class, which inputs ----------------------------------------------------------------------------------------


def test_the_class_that_a_configuration_names_is_built():
    config = AutoConfig.for_model("bert", **TINY)
    base = fadiff.from_huggingface(config, seq=16)
    config.architectures = ["BertForSequenceClassification"]
    head = fadiff.from_huggingface(config, seq=16)
    assert [layer.name for layer in head.layers] == [*(f"bert.{layer.name}" for layer in base.layers), "classifier"]
    assert fadiff.from_huggingface(config, seq=16, architecture="BertModel") == base
    config.architectures = ["ClassFromElsewhere"]
    elsewhere = fadiff.from_huggingface(config, seq=16)
    assert elsewhere.layers == base.layers
    assert base.notes == ()
    (told,) = elsewhere.notes
    assert told.startswith("transformers has no class 'ClassFromElsewhere', which the configuration names: ")
    assert told.endswith("this is BertModel, its base model")


def test_the_configuration_is_left_as_it_was():
    config = AutoConfig.for_model("gpt2", **CONFIGS["gpt2"])
    before = config.to_dict()
    fadiff.from_huggingface(config, seq=16)
    assert config.to_dict() == before
    assert config.use_cache


def test_sequences_have_512_tokens_or_as_many_as_there_are_positions():
    assert fadiff.from_huggingface(AutoConfig.for_model("bert", **TINY))["pooler.dense"].dims.N == 1
    assert fadiff.from_huggingface(AutoConfig.for_model("bert", **TINY)).layers[0].dims.N == 512
    short = AutoConfig.for_model("bert", **TINY, max_position_embeddings=100)
    assert fadiff.from_huggingface(short, batch=3).layers[0].dims.N == 300


def test_shapes_of_inputs_can_be_said():
    config = AutoConfig.for_model("resnet", **CONFIGS["resnet"])
    network = fadiff.from_huggingface(config, inputs={"pixel_values": (2, 3, 64, 96)})
    assert (network.layers[0].dims.P, network.layers[0].dims.Q) == (32, 48)


FAILURES = {
    "too many tokens": ({"seq": 600}, "seq is 600, but the model has 512 positions: give 512 at most"),
    "no tokens": ({"seq": 0}, "seq is 0: it is at least 1"),
    "no batch": ({"batch": 0}, "batch is 0: it is at least 1"),
    "an unknown input": ({"inputs": {"pixels": (1, 3)}}, "BertModel has no input 'pixels': it takes input_ids, "),
    "a shape and tokens": ({"inputs": {"input_ids": (1, 8)}, "seq": 8}, "leave batch and seq away"),
    "an unknown class": (
        {"architecture": "BertForFun"},
        "transformers has no class 'BertForFun': name one of its models",
    ),
    "a wrong shape": ({"inputs": {"input_ids": (1, 2, 3)}}, "BertModel cannot be traced with these inputs: "),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_makes_no_sense_is_told_in_one_sentence(name):
    options, sentence = FAILURES[name]
    with pytest.raises(FadiffError) as refused:
        fadiff.from_huggingface(AutoConfig.for_model("bert", **TINY), **options)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_model_without_tokens_takes_no_number_of_them():
    with pytest.raises(FadiffError, match="ResNetModel reads pixel_values and no tokens: leave seq away"):
        fadiff.from_huggingface(AutoConfig.for_model("resnet", **CONFIGS["resnet"]), seq=16)


def test_code_that_does_not_load_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch):
    """transformers loads a model when it is asked for, and what the model needs may be broken."""
    import transformers

    class Broken:
        __spec__ = transformers.__spec__

        def __getattr__(self, name: str) -> object:
            raise ModuleNotFoundError(f"Could not import module {name!r}.") from RuntimeError("no vision here\nat all")

    config = AutoConfig.for_model("bert", **TINY, architectures=["BertModel"])
    monkeypatch.setitem(sys.modules, transformers.__name__, Broken())
    with pytest.raises(
        FadiffError, match=r"^transformers cannot load the code of this model \(no vision here\): check"
    ):
        build(config, None)


def test_an_input_that_does_not_follow_from_the_configuration_must_be_said():
    config = AutoConfig.for_model("time_series_transformer", prediction_length=4)
    with pytest.raises(FadiffError, match=r"the shape of input 'past_values' does not follow .* say it, as in inputs="):
        fadiff.from_huggingface(config)


def test_without_transformers_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(
        "fadiff.workload.importers.torch_front_end.configs.find_spec",
        lambda name: None if name == "transformers" else 1,
    )
    with pytest.raises(
        FadiffError, match=r"Hugging Face configurations need transformers: run .*pip install transformers"
    ):
        fadiff.from_huggingface({"model_type": "bert"})


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    content = {"model_type": "bert", "architectures": ["BertModel"], "torch_dtype": "float16"} | TINY
    (tmp_path / "config.json").write_text(json.dumps(content))
    return tmp_path


def test_a_file_a_folder_and_its_content_say_the_same(folder):
    path = folder / "config.json"
    expected = fadiff.from_huggingface(AutoConfig.for_model("bert", **TINY), seq=16)
    assert is_torch_file(path)
    assert is_torch_file(folder)
    for given in (path, str(path), folder, json.loads(path.read_text())):
        assert fadiff.from_huggingface(given, seq=16) == expected
    assert import_torch_file(path, dims={"seq": 16}).workload == expected
    assert import_torch_file(folder, shapes={"input_ids": (1, 16)}).workload == expected


def test_a_configuration_has_three_dims(folder):
    assert import_torch_file(folder, dims={"batch": 2, "seq": 8}).workload.layers[0].dims.N == 16
    with pytest.raises(FileError, match="a configuration has no dim 'tokens': the dims are batch, seq and past"):
        import_torch_file(folder, dims={"tokens": 8})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"model_type": "bert", ', "was the file cut short?"),
        ('{"name": "net"}', "model_type is missing: this is no configuration of a Hugging Face model"),
        ("[]", "model_type is missing"),
        (
            '{"model_type": "bertram"}',
            "cannot read this configuration: Unrecognized model identifier: bertram",
        ),
        ('{"model_type": "bert", "hidden_size": "wide"}', "Validation error for field 'hidden_size': TypeError"),
        ('{"model_type": "bert", "hidden_size": 7}', "cannot be built of this configuration"),
    ],
)
def test_bad_configurations_are_told_in_one_sentence(content, sentence, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(FadiffError) as refused:
        fadiff.from_huggingface(tmp_path)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        fadiff.from_huggingface(tmp_path / "config.json")
