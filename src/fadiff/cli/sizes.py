"""Options of models from elsewhere: shapes of inputs, sizes of named dims, inputs that decide, blocks kept apart."""

from typing import Annotated, NamedTuple

import typer

from fadiff.errors import FadiffError

Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="INPUT=1x3x224x224",
        help="Models: the shape of an input. May be repeated.",
        show_default=False,
    ),
]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=1", help="Models: the size of a named dim. May be repeated.", show_default=False
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="INPUT=NUMBER",
        help="ONNX: an input that decides on a branch. May be repeated.",
        show_default=False,
    ),
]
Unfold = Annotated[
    bool,
    typer.Option("--unfold", help="Models: keep equal blocks apart, else one stands for many in a row and repeats."),
]

MOST_DIGITS = 10


class Sizes(NamedTuple):
    """What is given to settle what a model leaves open."""

    shapes: dict[str, tuple[int, ...]]
    dims: dict[str, int]
    values: dict[str, float]


def read_sizes(shapes: list[str] | None, dims: list[str] | None, values: list[str] | None) -> Sizes:
    """The options `--shape`, `--dim` and `--value`, checked."""
    return Sizes(
        {
            name: tuple(_size(f"--shape {name}={sizes}", size) for size in sizes.split("x"))
            for name, sizes in _pairs("--shape", shapes)
        },
        {name: _size(f"--dim {name}={size}", size) for name, size in _pairs("--dim", dims)},
        {name: _number(value) for name, value in _pairs("--value", values)},
    )


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.rpartition("=")
        if not name or not equals:
            raise FadiffError(f"{option} {item!r} is not NAME=VALUE: give one such as {option} input=1")
        if name in pairs:
            raise FadiffError(f"{option} is given twice for {name!r}: give it once")
        pairs[name] = value
    return list(pairs.items())


def _size(given: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        told = "write sizes such as 224, and shapes such as 1x3x224x224"
        raise FadiffError(f"{given}: size {text!r} is no whole number: {told}")
    if len(text) > MOST_DIGITS:
        raise FadiffError(f"{given}: size {text} is too large: give one of at most {MOST_DIGITS} digits")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FadiffError(f"--value {text!r} is no number: give one such as 16000") from None
