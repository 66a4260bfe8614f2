"""Compiled programs are kept on disk, so that a second run, also of another network of similar size, starts at once."""

import os
from pathlib import Path

import jax

VARIABLE = "FADIFF_CACHE_DIR"
"""Environment variable that names another folder for compiled programs; empty: keep none."""


def keep_compiled_programs() -> None:
    """Point JAX's persistent compilation cache to the user's cache folder, unless the user already chose one."""
    chosen = os.environ.get(VARIABLE)
    if chosen == "" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(Path(chosen) if chosen else base / "fadiff"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
