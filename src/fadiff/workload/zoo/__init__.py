"""The model zoo: networks by name, as short generators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from os.path import isdir, isfile
from pathlib import Path

from fadiff.file_kinds import NETWORK, refuse_other_kinds
from fadiff.workload.file import FILE_SUFFIXES, load_workload
from fadiff.workload.graph import Workload
from fadiff.workload.layer import MAX_SIZE, WorkloadError
from fadiff.workload.zoo.cnn import mobilenet_v1, mobilenet_v2, resnet, vgg
from fadiff.workload.zoo.transformer import Shape, transformer_block

SUFFIXES = (*FILE_SUFFIXES, ".onnx", ".pt2")


@dataclass(frozen=True, slots=True)
class _Model:
    """A generator, called with the workload's name and the options, and what there is to say about it."""

    build: Callable[..., Workload]
    about: str
    options: Mapping[str, int]
    title: str
    """The workload's name."""


def _image(title: str, about: str, build: Callable[..., Workload]) -> _Model:
    return _Model(build, f"{about}; options batch=1, size=224", {"batch": 1, "size": 224}, title)


def _block(title: str, about: str, shape: Shape, seq: int) -> _Model:
    about = f"{about}: one block, repeat=n for n of them; options seq={seq}, batch=1, repeat=1"
    return _Model(partial(transformer_block, shape=shape), about, {"seq": seq, "batch": 1, "repeat": 1}, title)


_MODELS: dict[str, _Model] = {
    "resnet18": _image("resnet18", "ResNet-18", partial(resnet, blocks=(2, 2, 2, 2), bottleneck=False)),
    "resnet50": _image("resnet50", "ResNet-50 v1.5", partial(resnet, blocks=(3, 4, 6, 3), bottleneck=True)),
    "vgg16": _image("vgg16", "VGG-16", partial(vgg, convs=(2, 2, 3, 3, 3))),
    "vgg19": _image("vgg19", "VGG-19", partial(vgg, convs=(2, 2, 4, 4, 4))),
    "mobilenet_v1": _image("mobilenet_v1", "MobileNet v1, width 1.0", mobilenet_v1),
    "mobilenet_v2": _image("mobilenet_v2", "MobileNet v2, width 1.0", mobilenet_v2),
    "gpt3-6.7b": _block("gpt3_6.7b_block", "GPT-3 6.7B (32 blocks in all)", Shape(32, 128, 16384), 2048),
    "bert-base": _block("bert_base_block", "BERT base (12 blocks in all)", Shape(12, 64, 3072), 512),
    "llama-7b": _block(
        "llama_7b_block", "LLaMA 7B (32 blocks in all)", Shape(32, 128, 11008, gated=True, rotary=True), 2048
    ),
}


def zoo_names() -> tuple[str, ...]:
    """The models that :func:`load_model` knows by name.

    >>> zoo_names()[:3]
    ('resnet18', 'resnet50', 'vgg16')
    """
    return tuple(_MODELS)


def describe(name: str) -> str:
    """One line on a model of the zoo: what it is, and its options with their defaults.

    >>> describe("vgg16")
    'VGG-16; options batch=1, size=224'
    """
    return _model(name).about


def load_model(
    spec: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    *,
    unfold: bool = False,
) -> Workload:
    """A network, from a name of the zoo (with options), from a workload file or from a model file.

    `spec` is `name`, `name:key=value,key=value`, a path that ends in .yaml, .yml or .json, or a model that
    :func:`fadiff.workload.importers.files.import_file` reads, such as an ONNX file. `shapes`, `dims` and `values` are
    for models that leave sizes open; `unfold` keeps equal blocks of such a model apart, which else become one that
    repeats.

    >>> load_model("resnet18").macs
    1814073344
    >>> load_model("bert-base:seq=128,repeat=12").macs
    11173625856
    """
    if spec.partition(":")[0].strip() not in _MODELS and _is_model_file(spec):
        from fadiff.workload.importers.files import import_file

        return import_file(Path(spec), shapes, dims, values, unfold=unfold).workload
    if shapes or dims or values:
        raise WorkloadError(
            f"{spec!r} takes no shapes of inputs: they are for models from elsewhere, such as ONNX files"
        )
    if unfold:
        raise WorkloadError(
            f"{spec!r} is taken as it is: leave unfold away, which is for models from elsewhere, such as ONNX files"
        )
    if spec.lower().endswith(FILE_SUFFIXES):
        return load_workload(Path(spec))
    name, colon, text = (part.strip() for part in spec.partition(":"))
    if name not in _MODELS:
        refuse_other_kinds(Path(spec), NETWORK)
        _refuse_path(spec)
    model = _model(name)
    given = _options(name, text, model.options) if colon else {}
    # Two sizes of one model are two networks: options that matter show in the name.
    changed = [f"{key}={value}" for key, value in given.items() if value != model.options[key]]
    title = f"{model.title}:{','.join(changed)}" if changed else model.title
    return model.build(title, **{**model.options, **given})


def _refuse_path(spec: str) -> None:
    """Raise where there is such a file or folder, but none that is a network."""
    # A name that is too long for a file is none.
    if spec and isdir(spec):
        raise WorkloadError(f"{spec}: this folder has no config.json of a Hugging Face model: name a file in it")
    if isfile(spec):
        raise WorkloadError(
            f"{spec}: the name of a network's file ends in {', '.join(SUFFIXES)}: is this the right file?"
        )


def _is_model_file(spec: str) -> bool:
    from fadiff.workload.importers.files import is_model_file

    try:
        return is_model_file(Path(spec))
    except OSError:  # no file can have such a name
        return False


def _model(name: str) -> _Model:
    if name in _MODELS:
        return _MODELS[name]
    raise WorkloadError(
        f"model {name!r} is unknown{_suggestion(name, _MODELS)}: use one of {', '.join(_MODELS)}, "
        f"or a file, whose name ends in {', '.join(SUFFIXES)}"
    )


def _options(name: str, text: str, known: Mapping[str, int]) -> dict[str, int]:
    """The options `key=value,key=value` of a model, checked."""
    options: dict[str, int] = {}
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise WorkloadError(f"{name}: option {item!r} is not key=value: the keys are {', '.join(known)}")
        if key not in known:
            raise WorkloadError(
                f"{name}: option {key!r} is unknown{_suggestion(key, known)}: the keys are {', '.join(known)}"
            )
        if key in options:
            raise WorkloadError(f"{name}: option {key!r} is given twice: give it once")
        # Ten digits are enough for MAX_SIZE; int() refuses thousands of them with an error of its own.
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else 0
        if not 1 <= number <= MAX_SIZE:
            raise WorkloadError(f"{name}: {key} is {value!r}: give a whole number from 1 to {MAX_SIZE}")
        options[key] = number
    return options


def _suggestion(word: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(word.lower(), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
