"""State-space models: the scans of Mamba and RWKV as loops that are traced once, and not step by step.

transformers runs them in loops over tokens, which tracing would unroll, unless a kernel for the whole scan is there.
These are such kernels, for tracing: the same operators, with PyTorch's scan around those of a token.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def scans_traced_once(module: nn.Module) -> Generator[None]:
    """Within it, the parts of a module scan by :data:`KERNELS`."""
    homes = {sys.modules.get(type(part).__module__) for part in module.modules()}
    before = [(home, name, getattr(home, name)) for home in homes for name in KERNELS if hasattr(home, name)]
    try:
        for home, name, _ in before:
            setattr(home, name, KERNELS[name])
        yield
    finally:
        for home, name, scan in before:
            setattr(home, name, scan)


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


def averaging_scan(
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: Sequence[Tensor] | None = None,
    return_state: bool = False,
) -> tuple[Tensor, Sequence[Tensor] | None]:
    r"""RWKV's average of all values so far, of weights that decay by :math:`e^w, w = -e^{time\_decay}`:

    .. math:: y_t = (a_{t-1} + e^{u + k_t} v_t) / (b_{t-1} + e^{u + k_t}), \quad
        a_t = e^w a_{t-1} + e^{k_t} v_t, \; b_t = e^w b_{t-1} + e^{k_t}, \; u = time\_first

    Arguments are named as in transformers. Key and value are ``[batch, time, width]``; the state is a and b, both
    without the largest exponent so far, and that exponent.
    """
    import torch
    from torch._higher_order_ops.scan import scan_op

    decay = -torch.exp(time_decay)
    zero = torch.zeros_like(key[:, 0], dtype=torch.float32)
    first = [zero, zero.clone(), zero - 1e38] if state is None else list(state)

    def step(
        total: Tensor, weight: Tensor, most: Tensor, key: Tensor, favoured: Tensor, value: Tensor, decay: Tensor
    ) -> tuple[Tensor, ...]:
        highest = torch.maximum(most, favoured)
        before, now = torch.exp(most - highest), torch.exp(favoured - highest)
        average = (before * total + now * value) / (before * weight + now)
        highest = torch.maximum(most + decay, key)
        before, now = torch.exp(most + decay - highest), torch.exp(key - highest)
        return before * total + now * value, before * weight + now, highest, average

    keys = key.float().transpose(0, 1)
    tokens = [keys, keys + time_first, value.transpose(0, 1)]
    *last, averages = cast("tuple[Tensor, ...]", scan_op(step, first, tokens, (decay,)))
    return averages.transpose(0, 1).to(key.dtype), last if return_state or state is not None else None


KERNELS = {"mamba_selective_scan": selective_scan, "rwkv_linear_attention_cpu": averaging_scan}
"""Scans by what models of transformers call them, in the Python modules that define them."""
