"""Sizes of the network's inputs: what the file says, and what the user adds."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import onnx

from fadiff.workload.importers.operators import ImportFailure
from fadiff.workload.layer import MAX_SIZE

Shapes = Mapping[str, Sequence[int]]
Sizes = Mapping[str, int]


def input_shapes(inputs: Sequence[onnx.ValueInfoProto], shapes: Shapes, dims: Sizes) -> dict[str, tuple[int, ...]]:
    """The shape of every input, from its declaration, named dims and whole shapes; :class:`ImportFailure` otherwise."""
    for info in inputs:
        if info.type.WhichOneof("value") not in (None, "tensor_type"):
            raise ImportFailure(f"input {info.name!r} is no tensor but a sequence of them, or none at all: unpack it")
    declared = {info.name: _declared(info) for info in inputs}
    _check_names("input", shapes, declared)
    named = {dim for sizes in declared.values() if sizes for dim in sizes if isinstance(dim, str) and dim}
    _check_names("dim", dims, named)
    for what, sizes in (*((f"dim {name!r}", (size,)) for name, size in dims.items()), *shapes.items()):
        if not all(0 <= size <= MAX_SIZE for size in sizes):
            raise ImportFailure(f"{what} is {_told(tuple(sizes))}: give whole numbers from 0 to {MAX_SIZE}")
    known = dict(dims)
    for name, shape in shapes.items():
        _bind(name, declared[name], tuple(shape), known)
    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in declared.items():
        whole = tuple(shapes[name]) if name in shapes else None
        if whole is None and sizes is not None:
            resolved = [known.get(dim) if isinstance(dim, str) else dim for dim in sizes]
            whole = tuple(size for size in resolved if size is not None)
            if len(whole) != len(sizes):
                raise _unknown(declared, known, set(shapes))
        if whole is None:
            raise _unknown(declared, known, set(shapes))
        found[name] = whole
    return found


def _declared(info: onnx.ValueInfoProto) -> list[int | str] | None:
    """Sizes of an input as the file has them: a number, or a name ("" where there is none). None: not even the rank.

    Exporters write 0 and -1 for sizes they do not know.
    """
    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [dim.dim_value if dim.dim_value > 0 else _name(dim.dim_param) for dim in kind.shape.dim]


def _name(param: str) -> str:
    return "" if param in ("?", "None", "unk") else param


def _bind(name: str, declared: list[int | str] | None, shape: tuple[int, ...], known: dict[str, int]) -> None:
    """Check a given shape against the file, and take the sizes of named dims from it."""
    if declared is None:
        return
    if len(declared) != len(shape):
        raise ImportFailure(
            f"input {name!r} has {len(declared)} axes ({_told(declared)}), the shape given has {len(shape)}: "
            f"give one like {'x'.join(map(str, _example(declared, known)))}"
        )
    for dim, size in zip(declared, shape, strict=True):
        expected = known.setdefault(dim, size) if isinstance(dim, str) and dim else (dim or size)
        if expected != size:
            where = f"dim {dim!r}, which is" if isinstance(dim, str) else "an axis that the file fixes to"
            raise ImportFailure(f"input {name!r} is given as {_told(shape)}: {size} stands for {where} {expected}")


def _check_names(
    what: str, given: Mapping[str, object], known: "Sequence[str] | set[str] | Mapping[str, object]"
) -> None:
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            there = f"those it has are {', '.join(sorted(known))}" if known else f"no {what} of it is open"
            raise ImportFailure(f"the model has no {what} {name!r}{hint}: {there}")


def _unknown(declared: Mapping[str, list[int | str] | None], known: Sizes, given: set[str]) -> ImportFailure:
    """One sentence that names all inputs whose sizes are missing, and what to give."""
    told: list[str] = []
    options: dict[str, None] = {}
    for name, sizes in declared.items():
        if name in given:
            continue
        if sizes is None:
            told.append(f"{name!r} (of any shape)")
            options[f"--shape {name}=AxBxC"] = None
            continue
        missing = [dim for dim in sizes if isinstance(dim, str) and dim not in known]
        if not missing:
            continue
        told.append(f"{name!r} ({_told(sizes)})")
        example = dict(zip(sizes, _example(sizes, known), strict=True))
        if "" in missing:
            options[f"--shape {name}={'x'.join(map(str, _example(sizes, known)))}"] = None
        else:
            options |= {f"--dim {dim}={example[dim]}": None for dim in missing}
    many = "inputs" if len(told) > 1 else "input"
    return ImportFailure(
        f"the sizes of {many} {', '.join(told)} are open: say which to use, such as {' '.join(options)}"
    )


def _example(sizes: Sequence[int | str], known: Sizes) -> list[int]:
    """Sizes as somebody might give them: a batch of 1, images of 224x224, a second of sound, sequences of 128."""
    found: list[int] = []
    for place, size in enumerate(sizes):
        name = size.lower() if isinstance(size, str) else ""
        if isinstance(size, int):
            found.append(size)
        elif size in known:
            found.append(known[size])
        elif "batch" in name or (place == 0 and "seq" not in name and "len" not in name):
            found.append(1)
        elif "sample" in name:
            found.append(16000)
        else:
            found.append(224 if len(sizes) == 4 or "height" in name or "width" in name else 128)
    return found


def _told(sizes: Sequence[int | str]) -> str:
    return " x ".join(str(size) if size != "" else "?" for size in sizes) or "a scalar"
