"""Which array library a formula runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jax import Array


def namespace(*arrays: Array) -> Any:  # noqa: ANN401  (an array library)
    """The library of the arrays: NumPy where all are NumPy's, else that of the first that is not.

    So constants may stay NumPy arrays while the rest is traced by JAX.
    """
    for array in arrays:
        library = array.__array_namespace__()
        if library is not np:
            return library
    return np
