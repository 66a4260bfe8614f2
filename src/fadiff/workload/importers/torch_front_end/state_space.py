"""State-space models: the selective scan of Mamba as a loop that is traced once, and not step by step.

transformers runs it in a loop over tokens, which tracing would unroll, unless a kernel for the whole scan is there.
This is such a kernel, for tracing: the same operators, with PyTorch's scan around those of a token.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torch import Tensor, nn

SELECTIVE_SCAN = "mamba_selective_scan"
"""What models of transformers call it, in the Python modules that define them."""


@contextmanager
def scans_traced_once(module: nn.Module) -> Generator[None]:
    """Within it, the parts of a module scan by :func:`selective_scan`."""
    homes = {sys.modules.get(type(part).__module__) for part in module.modules()}
    before = {home: getattr(home, SELECTIVE_SCAN) for home in homes if hasattr(home, SELECTIVE_SCAN)}
    try:
        for home in before:
            setattr(home, SELECTIVE_SCAN, selective_scan)
        yield
    finally:
        for home, scan in before.items():
            setattr(home, SELECTIVE_SCAN, scan)


def selective_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_settings: object,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""The recurrence :math:`h_t = e^{A \Delta_t} h_{t-1} + \Delta_t B_t x_t, \; y_t = h_t C_t + D x_t`, gated by z.

    Arguments are named as in transformers. Shapes: x, dt and z ``[batch, width, time]``, A ``[width, state]``, B and C
    ``[batch, state, time]``.
    """
    import torch
    from torch._higher_order_ops.scan import scan_op

    if delta_bias is not None:
        dt = dt + delta_bias[..., None]
    if delta_softplus:
        dt = torch.nn.functional.softplus(dt)
    kept = torch.exp(A[None, :, None, :] * dt[..., None])
    added = dt[..., None] * B.transpose(1, 2)[:, None] * hidden_states[..., None]

    def step(state: Tensor, kept: Tensor, added: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        state = kept * state + added
        return state.clone(), torch.matmul(state, wanted.unsqueeze(-1))[..., 0]

    tokens = [kept.permute(2, 0, 1, 3), added.permute(2, 0, 1, 3), C.permute(2, 0, 1)]
    scanned = cast("tuple[Tensor, Tensor]", scan_op(step, [torch.zeros_like(kept[:, :, 0])], tokens, ()))
    last, outputs = scanned
    result = outputs.permute(1, 2, 0)
    if D is not None:
        result = result + hidden_states * D[None, :, None]
    if z is not None:
        result = result * torch.nn.functional.silu(z)
    return (result, last) if return_last_state else result
