"""Hugging Face configurations: the module they describe, built without weights, and inputs to trace it with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fadiff.files import FileError, parse, read_text
from fadiff.workload.importers.operators import ImportFailure
from fadiff.workload.importers.torch_front_end.program import first_line, quiet, require_torch

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedConfig

Shape = tuple[int, ...]

DEFAULT_SEQ = 512
"""Tokens of a sequence, where the model takes as many."""
DEFAULT_IMAGE = 224
WAVE = 16000
"""Samples of a sound: one second, as most models sample it."""
TOKENS = ("input_ids", "decoder_input_ids")
WHOLE_NUMBERS = (*TOKENS, "token_type_ids", "position_ids", "attention_mask")


def load_config(path: Path) -> PreTrainedConfig:
    """Read a configuration: a JSON file, or a folder with a config.json in it. Nothing is downloaded."""
    if path.is_dir():
        path = path / "config.json"
    data = cast("object", parse(read_text(path), str(path)))
    if not isinstance(data, Mapping) or "model_type" not in data:
        raise FileError(f"{path}: model_type is missing: this is no configuration of a Hugging Face model")
    return config_of(cast("Mapping[str, Any]", data), str(path))


def config_of(data: Mapping[str, Any], origin: str) -> PreTrainedConfig:
    """A configuration from the content of its file."""
    _require_transformers()
    with quiet():
        from transformers import AutoConfig

        try:
            return AutoConfig.for_model(**data)
        except Exception as error:
            raise FileError(f"{origin}: transformers cannot read this configuration: {first_line(error)}") from error


def build(config: PreTrainedConfig, architecture: str | None) -> nn.Module:
    """The module of a configuration on the meta device: shapes without weights.

    It is the class `architecture`, else the first that the configuration names, else the base model without a head.
    """
    _require_transformers()
    import torch

    with quiet():
        try:
            known = _class(config, architecture)
        except ImportFailure:
            raise
        except Exception as error:  # transformers loads a model's code, and what that needs, when it is asked for
            told = first_line(error.__cause__ or error)
            raise ImportFailure(
                f"transformers cannot load the code of this model ({told}): check the installation of transformers"
            ) from error
        settings = _without_cache(config)
        try:
            with torch.device("meta"):
                module = cast("nn.Module", known(settings))
        except Exception as error:
            raise ImportFailure(
                f"{known.__name__} cannot be built of this configuration: {first_line(error)}"
            ) from error
    return module


def _class(config: PreTrainedConfig, architecture: str | None) -> Any:  # noqa: ANN401 - a class of transformers
    import transformers

    if architecture is not None and not hasattr(transformers, architecture):
        raise ImportFailure(f"transformers has no class {architecture!r}: name one of its models, such as BertModel")
    return getattr(transformers, architecture or _named(config) or "", None) or _base_model(config)


def _named(config: PreTrainedConfig) -> str | None:
    """The class that a configuration names first."""
    return next(iter(getattr(config, "architectures", None) or ()), None)


def notes_on(module: nn.Module, config: PreTrainedConfig, architecture: str | None) -> tuple[str, ...]:
    """What to tell of a module beside what becomes of its operators."""
    import transformers

    named, taken = _named(config), type(module).__name__
    if architecture is not None or named is None or hasattr(transformers, named):
        return ()
    return (f"transformers has no class {named!r}, which the configuration names: this is {taken}, its base model",)


def with_past(module: nn.Module, config: PreTrainedConfig) -> nn.Module:
    """A module that takes keys and values of earlier tokens, a pair for each of its blocks, before its own inputs."""
    import torch
    from transformers import DynamicCache

    class WithPast(torch.nn.Module):
        """Keys and values go into a cache as the module knows it."""

        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def forward(self, past: list[tuple[torch.Tensor, torch.Tensor]], inputs: dict[str, object]) -> torch.Tensor:
            cache = DynamicCache(config=config)
            for i, (keys, values) in enumerate(past):
                cache.update(keys, values, i)
            return self.model(**{**inputs, "past_key_values": cache, "use_cache": True})[0]

    WithPast.__name__ = type(module).__name__
    return WithPast()


def past_tensors(config: PreTrainedConfig, batch: int, past: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of `past` tokens, for each block of a decoder."""
    import torch

    text = cast("Any", getattr(config, "text_config", None) or config)
    heads = getattr(text, "num_attention_heads", None)
    if heads is None or getattr(config, "is_encoder_decoder", False):
        raise ImportFailure(f"{config.model_type} keeps no keys and values of earlier tokens: leave past away")
    key_heads = getattr(text, "num_key_value_heads", None) or (1 if getattr(text, "multi_query", False) else heads)
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    shape = (batch, key_heads, past, width)
    return [
        (torch.zeros(shape, device="meta"), torch.zeros(shape, device="meta")) for _ in range(text.num_hidden_layers)
    ]


def example_inputs(
    module: nn.Module, config: PreTrainedConfig, *, batch: int, seq: int | None, past: int, shapes: Mapping[str, Shape]
) -> dict[str, object]:
    """Arguments for one run of a module: tensors of the shapes that its configuration tells, or that are given."""
    takes = inspect.signature(module.forward).parameters
    for name in shapes:
        if name not in takes:
            known = ", ".join(other for other in takes if other != "kwargs")
            raise ImportFailure(f"{type(module).__name__} has no input {name!r}: it takes {known}")
    wanted = dict(shapes)
    if wanted and (batch != 1 or seq is not None):
        raise ImportFailure("shapes of inputs are given, and batch or seq as well: leave batch and seq away")
    if not wanted:
        main = str(getattr(module, "main_input_name", "input_ids"))
        names = [main, *(["decoder_input_ids"] if "decoder_input_ids" in takes else [])]
        if main == "input_ids" and "pixel_values" in takes and hasattr(config, "vision_config"):
            names.append("pixel_values")
        if seq is not None and not set(TOKENS).intersection(names):
            raise ImportFailure(f"{type(module).__name__} reads {', '.join(names)} and no tokens: leave seq away")
        wanted = {name: _shape(name, config, batch, seq, past) for name in names}
    inputs: dict[str, object] = {name: _tensor(name, shape, module) for name, shape in wanted.items()}
    if "use_cache" in takes:
        inputs["use_cache"] = False
    return inputs


def _tensor(name: str, shape: Shape, module: nn.Module) -> torch.Tensor:
    import torch

    first = next(module.parameters(), None)
    floats = torch.float32 if first is None else first.dtype
    return torch.zeros(shape, dtype=torch.long if name in WHOLE_NUMBERS else floats, device="meta")


def _shape(name: str, config: PreTrainedConfig, batch: int, seq: int | None, past: int) -> Shape:
    """The shape of an input by its name."""
    text, vision = (getattr(config, part, None) or config for part in ("text_config", "vision_config"))
    if name in TOKENS:
        return (batch, _tokens(text, seq, past))
    if name == "pixel_values":
        size = getattr(vision, "image_size", None) or DEFAULT_IMAGE
        rows, cols = (size, size) if isinstance(size, int) else cast("tuple[int, int]", tuple(size))
        return (batch, getattr(vision, "num_channels", None) or 3, rows, cols)
    if name == "input_features" and hasattr(config, "max_source_positions"):
        return (batch, config.num_mel_bins, 2 * config.max_source_positions)
    if name == "input_values":
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
            return (batch, config.max_length, config.num_mel_bins)
        return (batch, WAVE)
    raise ImportFailure(
        f"the shape of input {name!r} does not follow from the configuration: say it, as in "
        f"inputs={{{name!r}: (1, ...)}}, or --shape {name}=1x... on the command line"
    )


def _tokens(config: object, seq: int | None, past: int) -> int:
    """Tokens of a sequence, with those of the past no more than the model has positions for; after a past just one."""
    most = getattr(config, "max_position_embeddings", None) or getattr(config, "max_target_positions", None)
    limit = most if isinstance(most, int) and most > 0 else None
    if seq is None:
        seq = 1 if past else DEFAULT_SEQ if limit is None else min(DEFAULT_SEQ, limit)
    if limit is not None and past + seq > limit:
        given = f"past + seq is {past + seq}" if past else f"seq is {seq}"
        raise ImportFailure(f"{given}, but the model has {limit} positions: give {limit} at most")
    return seq


def _base_model(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - a class of transformers
    from transformers import MODEL_MAPPING

    known = cast("Any", MODEL_MAPPING).get(type(config), None)
    if known is None:
        raise ImportFailure(
            f"transformers has no base model for {type(config).__name__}: name its class as architecture"
        )
    return cast("Sequence[Any]", known)[0] if isinstance(known, (list, tuple)) else known


def _without_cache(config: PreTrainedConfig) -> PreTrainedConfig:
    """A copy that keeps no keys and values of earlier runs."""
    copy = deepcopy(config)
    for part in (copy, getattr(copy, "text_config", None), getattr(copy, "decoder", None)):
        if hasattr(part, "use_cache"):
            cast("Any", part).use_cache = False
    return copy


def _require_transformers() -> None:
    require_torch()
    if find_spec("transformers") is None:
        raise ImportFailure("Hugging Face configurations need transformers: run python -m pip install transformers")
