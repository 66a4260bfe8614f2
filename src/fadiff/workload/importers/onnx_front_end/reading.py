"""An ONNX file as a model, or one sentence on why it is none."""

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from fadiff.files import FileError

MOST_BYTES = 2**31 - 1
"""Protocol buffers cannot be larger: models beyond this keep their weights in files of their own."""


def read_model(path: Path) -> onnx.ModelProto:
    """The model in a file, without weights that lie in other files, functions replaced by their bodies."""
    model = onnx.ModelProto()
    data = _bytes(path)
    try:
        model.ParseFromString(data)
    except DecodeError:
        if data.startswith(b"version ") and b"git-lfs" in data[:100]:
            raise FileError(f"{path}: this is a pointer that Git LFS left: fetch the model itself") from None
        raise FileError(f"{path}: this is no ONNX file, or it was cut short: export or download it again") from None
    if not model.graph.node and not model.graph.output:
        raise FileError(f"{path}: there is no ONNX graph in this file: is this the right file?")
    if not model.graph.output:
        raise FileError(f"{path}: the graph has no outputs, so nothing in it is needed: export it again")
    if not _is_text(model.graph):
        raise FileError(f"{path}: names in it are no text: the file is damaged, export or download it again")
    return _inlined(model, path)


def _is_text(graph: onnx.GraphProto) -> bool:
    """Whether all names are text: of a damaged file, protocol buffers hand out bytes."""
    infos = (*graph.input, *graph.output, *graph.initializer, *graph.value_info)
    names: list[object] = [info.name for info in infos]
    names += [dim.dim_param for info in graph.input for dim in info.type.tensor_type.shape.dim]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for item in node.attribute:
            names.append(item.name)
            if not all(map(_is_text, (item.g, *item.graphs))):
                return False
    return all(isinstance(name, str) for name in names)


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise FileError(
                f"{path}: it has {size:,} bytes, an ONNX file at most {MOST_BYTES:,}: save the weights as external data"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file: check the path") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder: name a file in it") from None
    except OSError as error:
        raise FileError(f"{path}: it cannot be read ({error.strerror}): check its name and permissions") from None
    except ValueError:
        raise FileError(f"{str(path)!r}: no file can have this name: check the path") from None


def _inlined(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    if not model.functions:
        return model
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the library names no errors of its own
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise FileError(
            f"{path}: its functions cannot be replaced by their bodies ({reason}): export it anew"
        ) from None
