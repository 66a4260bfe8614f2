"""How genomes are crossed and mutated, whole populations at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.conditions import Problem
from fadiff.search.decode import bonds
from fadiff.search.genome import STRENGTHS, Encoding, Genomes
from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS
from fadiff.search.options import without_shared
from fadiff.search.space import SLIDING_ORDERS3, T0, T1, T2, T3, prime_factors
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

_K, _C = DIMS.index("K"), DIMS.index("C")
_SHARES = 5
"""Shares of a loop's prime factors that are drawn: 0, 1/4, 1/2, 3/4, 1."""


class Chances(NamedTuple):
    """How likely a change is of each kind; they add up to 1."""

    move: float = 0.5
    order: float = 0.1
    cut: float = 0.15
    share: float = 0.15
    copy: float = 0.1


class Breeder:
    """Operators on the genomes of one encoding; all randomness comes from the generator that each call is given."""

    def __init__(self, encoding: Encoding, problem: Problem, chances: Chances = Chances()) -> None:
        self.encoding = encoding
        self.chances = chances
        workload, count = encoding.workload, len(encoding.workload.layers)
        self._depth = np.array([workload.depth[layer.name] for layer in workload.layers])
        twin = np.array(problem.twin)
        self._twins = (twin[:, None] == twin) & ~np.eye(count, dtype=bool)
        """``[layers, layers]`` layers of the same shape."""
        self._crossing = np.zeros((len(workload.edges), max(0, count - 1)), dtype=bool)
        """``[edges, cut points]`` edges that may be fused, and the places between neighbours that they cross."""
        for i, edge in enumerate(workload.edges):
            self._crossing[i, workload.depth[edge.source] : workload.depth[edge.target]] = encoding.fusible[i]
        by_layer = np.argsort(encoding.layer, kind="stable")
        self._primes = by_layer
        """Numbers of the primes, layer by layer."""
        mapped = np.flatnonzero(encoding.is_mac)
        self._layers = mapped if mapped.size else np.arange(count)
        """Layers whose mapping may change: all that have one, where there are any."""
        self._first = np.searchsorted(encoding.layer[by_layer], np.arange(count + 1))
        """``[layers + 1]`` where the primes of each layer begin there."""
        may_share = encoding.slots[SHARED, encoding.dim, encoding.layer] & np.isin(encoding.dim, SHARED_DIMS)
        self._shareable = np.flatnonzero(may_share)
        """Primes that a group may share."""
        factored = [[prime_factors(int(size)) for size in row] for row in encoding.size]
        most = max(1, *(len(primes) for row in factored for primes in row))
        padded = np.array([[primes + [(1, 1)] * (most - len(primes)) for primes in row] for row in factored])
        self._prime, self._exponent = padded.transpose(3, 2, 0, 1).astype(np.float64)
        """``[primes, 8, layers]`` the primes of each dim and how often they divide it, padded with 1."""

    def crossed(self, random: np.random.Generator, one: IntArray, other: IntArray) -> IntArray:
        """Children of two parents each, as flat rows: whole layers of one, the rest of the other.

        Half of the children choose layer by layer, the others take a run of layers in topological order.
        """
        children, layers = len(one), self._depth.size
        each = random.random((children, layers)) < 0.5
        ends = np.sort(random.integers(layers + 1, size=(children, 2)), axis=1)
        run = (ends[:, :1] <= self._depth) & (self._depth < ends[:, 1:])
        taken = np.where(random.random((children, 1)) < 0.5, each, run)
        return np.where(taken[:, self.encoding.owner], other, one)

    def mutated(self, random: np.random.Generator, genomes: Genomes, changes: float, focus: float) -> Genomes:
        """Every individual after one change or more, Poisson with a mean of `changes`.

        In a share `focus` of the individuals all changes of mappings are made to one layer: a tile that is to be long
        another way needs more than one of them.
        """
        mutants = Genomes(*(genes.copy() for genes in genomes))
        counts = 1 + random.poisson(changes - 1, size=genomes.individuals)
        kinds = (self._move, self._order, self._cut, self._share, self._copy)
        focused = random.random(genomes.individuals) < focus
        favourite = self._any_layer(random, genomes.individuals)
        for turn in range(int(counts.max())):
            rows = np.flatnonzero(counts > turn)
            kind = random.choice(len(kinds), size=rows.size, p=self.chances)
            layer = np.where(focused, favourite, self._any_layer(random, genomes.individuals))
            for i, change in enumerate(kinds):
                mine = rows[kind == i]
                if mine.size:
                    change(random, mutants, mine, layer[mine])
        return mutants

    def _any_layer(self, random: np.random.Generator, count: int) -> IntArray:
        return self._layers[random.integers(self._layers.size, size=count)]

    def _move(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, layer: IntArray) -> None:
        """Move a prime factor of a dim, or up to its third power, to another slot."""
        code = self.encoding
        there = self._first[layer + 1] > self._first[layer]
        rows, layer = rows[there], layer[there]
        chosen = self._primes[random.integers(self._first[layer], self._first[layer + 1])]
        dim, prime = code.dim[chosen], code.prime[chosen]
        held = genomes.factors[rows, :, dim, layer]
        source = _one_of(random, held % prime[:, None] == 0)
        targets = code.slots[:, dim, layer].T.copy()
        each = np.arange(rows.size)
        targets[each, source] = False
        target = _one_of(random, targets)
        amount = prime.copy()
        for _ in range(2):
            more = (held[each, source] % (amount * prime) == 0) & (random.random(rows.size) < 0.4)
            amount = np.where(more, amount * prime, amount)
        amount = np.where(targets.any(axis=1), amount, 1)
        genomes.factors[rows, source, dim, layer] //= amount
        genomes.factors[rows, target, dim, layer] *= amount

    def _order(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, layer: IntArray) -> None:
        """Draw the order of a layer's L3 loops anew."""
        genomes.order[rows, layer] = random.integers(len(SLIDING_ORDERS3), size=rows.size) * self.encoding.is_mac[layer]

    def _cut(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, layer: IntArray) -> None:
        """At a place between two neighbours: cut all edges that cross it, or fuse one if none is fused."""
        points = np.flatnonzero(self._crossing.any(axis=0))
        if not points.size:
            return
        at = points[random.integers(points.size, size=rows.size)]
        crossing = self._crossing[:, at].T
        strength = genomes.strength[rows]
        fused = crossing & (strength >= STRENGTHS // 2)
        weak = random.integers(STRENGTHS // 2, size=strength.shape)
        joined = np.zeros_like(fused)
        joined[np.arange(rows.size), _one_of(random, crossing)] = True
        joined &= ~fused.any(axis=1, keepdims=True)
        strength = np.where(fused, weak, strength)
        genomes.strength[rows] = np.where(joined, STRENGTHS // 2 + weak, strength)
        anew = joined.any(axis=1) & (random.random(rows.size) < 0.5)
        self._share_anew(random, genomes, rows[anew], at[anew])

    def _share(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, layer: IntArray) -> None:
        """Let all layers of a group share a prime factor of G, N, P or Q more or less, or draw all that they share."""
        code = self.encoding
        if not self._shareable.size:
            return
        anew = random.random(rows.size) < 0.5
        self._share_anew(random, genomes, rows[anew], self._depth[layer[anew]])
        rows = rows[~anew]
        chosen = self._shareable[random.integers(self._shareable.size, size=rows.size)]
        dim, prime = code.dim[chosen, None], code.prime[chosen, None]
        members = self._members(genomes, rows, self._depth[code.layer[chosen]])
        every = np.arange(self._depth.size)
        factors = genomes.factors[rows[:, None], :, dim, every]
        more = (random.random(rows.size) < 0.5)[:, None] & members
        less = ~more & members & (factors[..., SHARED] % prime == 0)
        for slot in (T3, T2, T1, T0):
            taken = more & (factors[..., slot] % prime == 0)
            factors[..., slot] //= np.where(taken, prime, 1)
            factors[..., SHARED] *= np.where(taken, prime, 1)
            more = more & ~taken
        factors[..., SHARED] //= np.where(less, prime, 1)
        factors[..., T3] *= np.where(less, prime, 1)
        genomes.factors[rows[:, None], :, dim, every] = factors

    def _share_anew(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, depth: IntArray) -> None:
        """Draw what the group at some place in topological order shares: of each loop a share of its prime factors.

        All layers draw the same shares; K and C stand for the channel loop.
        """
        if not rows.size:
            return
        share = random.integers(_SHARES, size=(rows.size, len(DIMS), 1)) / (_SHARES - 1)
        share[:, _C] = share[:, _K]
        wanted = (self._prime ** np.rint(self._exponent * share[:, None])).prod(axis=1).astype(np.int64)
        wanted = np.where(self.encoding.slots[SHARED], wanted, 1)
        members = self._members(genomes, rows, depth)[:, None]
        factors = genomes.factors[rows].transpose(1, 2, 0, 3)
        wanted = np.where(members, wanted, factors[SHARED].transpose(1, 0, 2)).transpose(1, 0, 2)
        whole = np.concatenate([factors[:T3], (factors[T3] * factors[SHARED])[None]])
        changed = np.concatenate([without_shared(whole, wanted), wanted[None]])
        genomes.factors[rows] = changed.transpose(2, 0, 1, 3)
        outside = random.integers(2, size=(rows.size, 1)) * self.encoding.x_producer
        genomes.x_outside[rows] = np.where(members[:, 0], outside, genomes.x_outside[rows])

    def _members(self, genomes: Genomes, rows: IntArray, depth: IntArray) -> BoolArray:
        """``[rows, layers]`` the layers that edges of strength hold together with the one at `depth`."""
        bond = bonds(self.encoding.workload, (genomes.strength[rows] + 0.5) / STRENGTHS)
        group = np.pad(np.cumsum(bond < 0.5, axis=1), ((0, 0), (1, 0)))
        return group[:, self._depth] == group[np.arange(rows.size), depth][:, None]

    def _copy(self, random: np.random.Generator, genomes: Genomes, rows: IntArray, layer: IntArray) -> None:
        """Give a layer the mapping of another of the same shape."""
        having = np.flatnonzero(self._twins.any(axis=1))
        if not having.size:
            return
        layer = having[random.integers(having.size, size=rows.size)]
        twin = _one_of(random, self._twins[layer])
        genomes.factors[rows, :, :, layer] = genomes.factors[rows, :, :, twin]
        genomes.order[rows, layer] = genomes.order[rows, twin]


def _one_of(random: np.random.Generator, allowed: BoolArray) -> IntArray:
    """``[rows]`` a random one of the options ``[rows, options]`` that are allowed; the first if none is."""
    return np.where(allowed, random.random(allowed.shape), -1.0).argmax(axis=1)
