"""How genomes are crossed and mutated, whole populations at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, Encoding, Genomes
from fadiff.search.exact.climb import Moves, moved
from fadiff.search.exact.plans import bonds
from fadiff.search.space import settle

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Int

    from fadiff.search.evolutionary.genome import GeneRows

    Numbers = Int[np.ndarray, " rows"]


class Chances(NamedTuple):
    """How likely a change is of each kind; they add up to 1."""

    move: float = 0.5
    order: float = 0.1
    cut: float = 0.15
    share: float = 0.15
    copy: float = 0.1


class Breeder:
    """Operators on the genomes of one encoding; all randomness comes from the generator that each call is given.

    `layers` are those whose mappings may change; by default all that have one.
    """

    def __init__(self, encoding: Encoding, chances: Chances = Chances(), layers: Sequence[int] | None = None) -> None:
        self.encoding = encoding
        self.chances = chances
        task = encoding.task
        workload, count = task.workload, len(task.workload.layers)
        self._depth = np.array([workload.depth[layer.name] for layer in workload.layers])
        twin = np.array(task.twin)
        self._twins = (twin[:, None] == twin) & ~np.eye(count, dtype=bool) & encoding.is_mac
        """``[layers, layers]`` layers of the same shape."""
        self._crossing = bonds(workload, np.diag(encoding.fusible))
        """``[edges, cut points]`` edges that may be fused, and the places between neighbours that they cross."""
        mapped = np.flatnonzero(encoding.is_mac) if layers is None else np.array(layers)
        self._layers = mapped if mapped.size else np.arange(count)
        """Where no layer has a mapping, any: a change of it changes nothing."""
        self._moves = task.moves([task.alone(layer.name) for layer in workload.layers], pairs=False)
        """``[moves, layers]`` those of the exact search; the last ones change nothing."""

    def crossed(self, random: np.random.Generator, one: GeneRows, other: GeneRows) -> GeneRows:
        """Children of two parents each: whole layers of one, the rest of the other.

        Half of the children choose layer by layer, the others take a run of layers in topological order.
        """
        children, layers = len(one), self._depth.size
        each = random.random((children, layers)) < 0.5
        ends = np.sort(random.integers(layers + 1, size=(children, 2)), axis=1)
        run = (ends[:, :1] <= self._depth) & (self._depth < ends[:, 1:])
        taken = np.where(random.random((children, 1)) < 0.5, each, run)
        return np.where(taken[:, self.encoding.owner], other, one)

    def mutated(self, random: np.random.Generator, parents: GeneRows, changes: float, focus: float) -> GeneRows:
        """Every individual after one change or more, Poisson with a mean of `changes`.

        In a share `focus` of the individuals all changes of mappings are made to one layer: a tile that is to be long
        another way needs more than one of them.
        """
        mutants, individuals = parents.copy(), len(parents)
        genomes = self.encoding.genes(mutants)
        counts = 1 + random.poisson(changes - 1, size=individuals)
        kinds = (self._move, self._order, self._cut, self._share, self._copy)
        focused = random.random(individuals) < focus
        favourite = self._any_layer(random, individuals)
        for turn in range(int(counts.max())):
            rows = np.flatnonzero(counts > turn)
            kind = random.choice(len(kinds), size=rows.size, p=self.chances)
            layer = np.where(focused, favourite, self._any_layer(random, individuals))
            for i, change in enumerate(kinds):
                mine = rows[kind == i]
                if mine.size:
                    change(random, genomes, mine, layer[mine])
        return mutants

    def _any_layer(self, random: np.random.Generator, count: int) -> Numbers:
        return self._layers[random.integers(self._layers.size, size=count)]

    def _move(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, layer: Numbers) -> None:
        """A move of the exact search: a factor goes from one node to another, or grows or shrinks; or loops turn."""
        size = self.encoding.size[layer].T
        factors = np.ones((len(self.encoding.task.machine.nodes), 8, rows.size))
        factors[1:] = genomes.factors[rows, layer].transpose(1, 2, 0)
        factors[0] = np.ceil(size / factors[1:].prod(axis=0))
        moves = Moves(*(part[:, layer] for part in self._moves))
        # A node gives what it has.
        gives = (moves.source < 0) | (factors[moves.source, moves.dim, np.arange(rows.size)] > 1)
        chosen = _one_of(random, np.asarray(gives & ((moves.target >= 0) | (moves.memory >= 0))).T)
        moves = Moves(*(part[chosen, np.arange(rows.size)][None] for part in moves))
        given = (factors[:, :, None], genomes.order[rows, layer].T[:, None], size[:, None])
        before, order, tile = (cast("Array", values) for values in given)
        after, order = moved(before, order, moves, tile)
        genomes.factors[rows, layer] = np.asarray(settle(after, tile))[1:, :, 0].transpose(2, 0, 1)
        genomes.order[rows, layer] = np.asarray(order)[:, 0].T

    def _order(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, layer: Numbers) -> None:
        """Draw the order of a memory's loops anew."""
        memory = _one_of(random, np.tile(self.encoding.orders > 1, (rows.size, 1)))
        drawn = random.integers(self.encoding.orders[memory])
        genomes.order[rows, layer, memory] = drawn * self.encoding.is_mac[layer]

    def _cut(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, layer: Numbers) -> None:
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
        self._wish_anew(random, genomes, rows[anew], at[anew])

    def _share(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, layer: Numbers) -> None:
        """Let all layers of a group wish to share a loop a little more or less, or draw all their wishes anew."""
        if not self.encoding.fusible.any():
            return
        anew = random.random(rows.size) < 0.5
        self._wish_anew(random, genomes, rows[anew], self._depth[layer[anew]])
        rows, layer = rows[~anew], layer[~anew]
        members = self._members(genomes, rows, self._depth[layer])
        loop = _one_of(random, self.encoding.loop_size[layer] > 1)
        wish = genomes.wish[rows, :, loop] + random.choice((-1, 1), size=(rows.size, 1)) * members
        genomes.wish[rows, :, loop] = wish.clip(0, SHARES) * self.encoding.wishes[:, loop].T

    def _wish_anew(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, depth: Numbers) -> None:
        """Draw what the group at some place in topological order would share; all its layers wish the same."""
        wish = self.encoding.random_wishes(random, (rows.size, 1))
        members = self._members(genomes, rows, depth)[..., None]
        genomes.wish[rows] = np.where(members, wish, genomes.wish[rows])

    def _members(self, genomes: Genomes, rows: Numbers, depth: Numbers) -> Bool[np.ndarray, "rows layers"]:
        """The layers that edges of strength hold together with the one at `depth`."""
        bond = bonds(self.encoding.task.workload, genomes.strength[rows])
        group = np.pad(np.cumsum(bond < STRENGTHS // 2, axis=1), ((0, 0), (1, 0)))
        return group[:, self._depth] == group[np.arange(rows.size), depth][:, None]

    def _copy(self, random: np.random.Generator, genomes: Genomes, rows: Numbers, layer: Numbers) -> None:
        """Give a layer the mapping of another of the same shape."""
        having = np.flatnonzero(self._twins.any(axis=1))
        if not having.size:
            return
        layer = having[random.integers(having.size, size=rows.size)]
        twin = _one_of(random, self._twins[layer])
        genomes.factors[rows, layer] = genomes.factors[rows, twin]
        genomes.order[rows, layer] = genomes.order[rows, twin]


def _one_of(random: np.random.Generator, allowed: Bool[np.ndarray, "rows choices"]) -> Numbers:
    """A random one of the choices that are allowed; the first if none is."""
    return np.where(allowed, random.random(allowed.shape), -1.0).argmax(axis=1)
