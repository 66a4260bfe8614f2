"""A PyTorch module as a program of ATen operators without side effects, traced on shapes alone."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fadiff.errors import pip_install
from fadiff.files import FileError
from fadiff.workload.importers.operators import ImportFailure
from fadiff.workload.importers.torch_front_end.state_space import scans_traced_once

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram
    from torch.fx import Node

ROUNDS = 3
"""How often operators that nobody knows are taken apart; what they are made of is known after one or two times."""
CONTROL_FLOW = ("cond", "while_loop", "map_impl", "associative_scan")


def require_torch() -> None:
    """Raise :class:`ImportFailure` unless PyTorch is there."""
    if find_spec("torch") is None:
        raise ImportFailure(f"PyTorch is not installed: run {pip_install('torch')}, or export the model to ONNX")


def export(module: nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> ExportedProgram:
    """Trace a module as it would run for inference. It is left as it was; no weights are copied or read."""
    import torch

    training = [part for part in module.modules() if part.training]
    parameters = module.parameters()
    on_meta = any(parameter.is_meta for parameter in parameters)
    if on_meta:
        args, kwargs = _to_meta(args), cast("Mapping[str, object]", _to_meta(kwargs))
    try:
        module.eval()
        with quiet(), torch.no_grad(), scans_traced_once(module):
            return torch.export.export(module, tuple(args), dict(kwargs), strict=False)
    except Exception as error:
        raise ImportFailure(_why(module, error)) from error
    finally:
        for part in training:
            part.training = True


def load(path: Path) -> ExportedProgram:
    """Read a program that ``torch.export.save`` wrote."""
    import torch

    if not path.is_file():
        raise FileError(f"{path}: there is no such file: check the path")
    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:
        raise FileError(f"{path}: this is no program of torch.export that can be read ({first_line(error)})") from error


def functional(program: ExportedProgram, is_known: Callable[[Node], bool]) -> ExportedProgram:
    """The same program with operators that write into nobody's inputs, and that are known where it matters.

    An operator that `is_known` does not want, and that does not run on constants alone, is replaced by what it is made
    of, if PyTorch can tell.
    """
    from torch.export import default_decompositions

    table = cast("dict[object, Any]", default_decompositions())
    for _ in range(ROUNDS):
        live = live_calls(program)
        parts = {node.target: table[node.target] for node in live if not is_known(node) and node.target in table}
        if not parts and not any(map(_has_side_effects, live)):
            break
        with quiet():
            program = program.run_decompositions(cast("Any", parts))
    for node in program.graph.nodes:
        if (name := higher_order_name(node)) in CONTROL_FLOW:
            raise ImportFailure(
                f"the model has control flow that depends on data (torch.{name.removesuffix('_impl')}): one workload "
                "cannot say which way it goes; export the branch that you want"
            )
    return program


def live_calls(program: ExportedProgram) -> list[Node]:
    """Calls of operators that depend on the network's inputs."""
    from torch.export.graph_signature import InputKind

    specs = program.graph_signature.input_specs
    inputs = {spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT}
    live: dict[Node, None] = {}
    for node in program.graph.nodes:
        if node.name in inputs if node.op == "placeholder" else any(other in live for other in node.all_input_nodes):
            live[node] = None
    return [node for node in live if node.op == "call_function" and _is_operator(node)]


def _to_meta(values: object) -> Any:  # noqa: ANN401 - any nest of containers with tensors in it
    """Containers with every tensor replaced by one of its shape on the meta device."""
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), values)


def _is_operator(node: Node) -> bool:
    return hasattr(node.target, "_schema") or higher_order_name(node) != ""


def higher_order_name(node: Node) -> str:
    """The name of an operator over functions, such as cond; empty for all other nodes."""
    from torch._ops import HigherOrderOperator

    return node.target.name() if isinstance(node.target, HigherOrderOperator) else ""


def _has_side_effects(node: Node) -> bool:
    """Whether a call changes what others read, or wraps calls in a mode such as no_grad."""
    if (name := higher_order_name(node)) != "":
        return name.startswith("wrap")
    return is_inplace(node) and not _is_harmless(node)


def is_inplace(node: Node) -> bool:
    """Whether a call writes into one of its inputs."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _is_harmless(node: Node) -> bool:
    """Whether a call writes into a tensor that nobody else sees, before or after, in this or another shape.

    Activations and sums are often written so; they are the same as if they had made a new tensor.
    """
    from torch.fx import Node

    written = node.args[0] if node.args else None
    others = written.users.keys() - {node} if isinstance(written, Node) else ()
    return (
        isinstance(written, Node)
        and written.op == "call_function"
        and not _is_view(written)
        and not any(_is_view(other) or other > node for other in others)
    )


def _is_view(node: Node) -> bool:
    """Whether a result may be another view of an input's words."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    if any(value.alias_info is not None and not value.alias_info.is_write for value in schema.returns):
        return True
    return "dropout" in schema.name


@contextmanager
def quiet() -> Generator[None]:
    """Without what PyTorch says on the side: what a user has to know comes as one sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def first_line(error: BaseException) -> str:
    """What an error says first, short enough for one sentence."""
    first, *rest = str(error).strip().split("\n") or [""]
    if first.endswith(":") and rest:
        first = f"{first} {rest[0].strip()}"
    return first.partition(". ")[0][:200].rstrip(".") or type(error).__name__


def _why(module: nn.Module, error: Exception) -> str:
    """Why a module cannot be traced, in one sentence."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    name = type(module).__name__
    told = first_line(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            f"{name} cannot be traced: which way it goes, or a shape, depends on the values of a tensor ({told}): "
            "rewrite that part, or give a torch.export program of the way that you want"
        )
    return f"{name} cannot be traced with these inputs: {told}"
