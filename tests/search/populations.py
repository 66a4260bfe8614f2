"""Populations of small networks, and one repair for all tests: networks of few layers share a compiled program."""

import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

from fadiff.errors import FadiffError
from fadiff.search import optimize
from fadiff.search.genome import Encoding, Genomes
from fadiff.search.repair import Repair
from oracle import schedules
from search.networks import NETWORKS, machine

BATCH = 32


def random_genomes(code: Encoding, seed: int, count: int) -> Genomes:
    return code.random(np.random.default_rng(seed), count)


def everything_equal(one, other) -> bool:
    """Whether two tuples of arrays are the same."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@cache
def repair_of(workload, hardware) -> Repair:
    return Repair(Encoding(workload, hardware), BATCH)


class Missing:
    """An importer of nothing: a library that is not installed."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name, path=None, target=None):
        if name == self.library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refused_without(monkeypatch, method: str, library: str) -> str:
    """What the method says where a library is not installed."""
    for name in list(sys.modules):
        if name.split(".")[0] == library or name in ("fadiff.search.island", "fadiff.search.gaussian"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"fadiff.search.{method}", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(library), *sys.meta_path])
    with pytest.raises(FadiffError) as refused:
        optimize(NETWORKS["feed_forward"], machine(), method=method)
    return str(refused.value)


@st.composite
def any_network(draw):
    """A random small network: a layer, a chain, a block with a shortcut, attention, a concatenation, ..."""
    kinds = (
        schedules.single_layers, schedules.chains, schedules.residuals, schedules.channel_loops, schedules.weight_ports,
        schedules.concatenations, schedules.unfusible,
    )  # fmt: skip
    return draw(draw(st.sampled_from(kinds))()).workload


@st.composite
def any_machine(draw):
    """A machine on which the smallest tiles fit, often no more than that."""
    cols, doubled = draw(st.sampled_from((1, 2, 4, 6))), draw(st.booleans())
    return machine(
        rows=draw(st.sampled_from((1, 3, 4, 8))),
        cols=cols,
        l1_bytes=4 * cols * (1 + doubled) * draw(st.sampled_from((1, 2, 3, 8, 64))),
        l2_bytes=2 * (1 + doubled) * draw(st.sampled_from((1, 3, 10, 40, 100, 400, 4000))),
        spatial_rows=draw(st.sampled_from((("C",), ("C", "R", "S")))),
        spatial_cols=draw(st.sampled_from((("K", "G"), ("G", "K")))),
        double_buffered=doubled,
        online_softmax=draw(st.booleans()),
        overlap=draw(st.sampled_from(("full", "none"))),
    )
