r"""Groups that a schedule cheaper than some price may have, and the cheapest schedule that is made of such groups.

The prices y of the program in which all agree (:mod:`fadiff.search.solver.modes`) price every group on its own: what a
row says of all groups it says of each, so a group costs at least the sum of its layers' reduced costs. With
:math:`u_v` the least reduced cost of layer v, a schedule costs at least

.. math:: \sum_v u_v + \sum_{groups\ g} slack_g, \qquad slack_g = \sum_{v \in g} (reduced_v - u_v) \ge 0

A group whose slack exceeds what is left up to a price is in no schedule below that price. The others are listed.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Float
    from numpy import ndarray

    from fadiff.search.solver.modes import Modes
    from fadiff.search.solver.place import Fused, Link

MOST_COVERS = 20_000
"""Sets of layers that are done, at most, on the way to the cheapest schedule."""


class Listed(NamedTuple):
    """A group, as far as it is known: its layers, the sink last, and a box of trips (None: a layer on its own)."""

    layers: tuple[str, ...]
    box: int | None
    slack: float


class Groups:
    """All groups of a network whose slack is at most some budget."""

    def __init__(self, modes: Modes, reduced: Float[ndarray, " modes"], least: Float[ndarray, " layers"]) -> None:
        self._modes = modes
        self._links = links = modes.links
        self._order = links.workload.topological
        names = [layer.name for layer in links.workload.layers]
        self._slack: dict[tuple[str, int | None], dict[Fused, float]] = {}
        """By layer and box: the slack of a layer with some links fused."""
        for column, mode in enumerate(modes.modes):
            mine = self._slack.setdefault((names[mode.layer], mode.box), {})
            mine[mode.fused] = min(mine.get(mode.fused, inf), float(reduced[column] - least[mode.layer]))

    def within(self, budget: float) -> Iterator[Listed]:
        """Groups of every sink and box, and layers on their own."""
        for place, name in enumerate(self._order):
            for slack in self._slack.get((name, None), {}).values():
                if slack <= budget:
                    yield Listed((name,), None, slack)
            for box in self._modes.tree.leaves(name):
                if (name, box) in self._slack:
                    yield from self._grown((name,), place, box, budget)

    def _grown(self, inside: tuple[str, ...], place: int, box: int, budget: float) -> Iterator[Listed]:
        """Groups with some layers in it, under the trips of a box, and others that come before a place in the order.

        Against the flow of data: whether a layer is in the group is decided after all its consumers. One that joins
        may have the box in parts: then the group is told apart by these.
        """
        undecided = set(self._order[:place])
        slack = sum(self._least_slack(name, box, inside, undecided) for name in inside)
        if slack > budget:
            return
        joins = next((i for i in range(place - 1, -1, -1) if self._may_join(self._order[i], inside)), None)
        if joins is None:
            slack = sum(self._least_slack(name, box, inside, set()) for name in inside)
            if len(inside) > 1 and slack <= budget:
                yield Listed(inside, box, slack)
            return
        for part in self._modes.tree.leaves(self._order[joins], box):
            yield from self._grown((self._order[joins], *inside), joins, max(box, part), budget)
        yield from self._grown(inside, joins, box, budget)

    def _least_slack(self, name: str, box: int, inside: Sequence[str], undecided: set[str]) -> float:
        """The least slack of a layer of a group, whatever is undecided."""
        decided = [link for link in self._modes.tied[name] if undecided.isdisjoint(link)]
        fused = {link for link in decided if link[0] in inside and link[1] in inside}
        found = self._slack.get((name, self._modes.tree.known(box, (name,))), {})
        return min((slack for links, slack in found.items() if _agrees(links, fused, decided)), default=inf)

    def _may_join(self, name: str, inside: Sequence[str]) -> bool:
        """Whether a layer can be in the group of its consumers: all links to them may be fused, and no path from it
        leaves the group and comes back."""
        targets = {edge.target for edge in self._links.workload.consumers[name]}
        into = targets.intersection(inside)
        outside = targets - into
        return (
            bool(into)
            and all((name, target) in self._links.passed for target in into)
            and not any(self._links.follows(outer, inner) for outer in outside for inner in inside)
        )


def _agrees(links: Fused, fused: set[Link], decided: Sequence[Link]) -> bool:
    return fused.issubset(links) and all(link in fused or link not in links for link in decided)


def cheapest_cover(layers: int, slack: Mapping[int, float], budget: float) -> list[int] | None:
    """The groups that hold every layer once and whose slacks add up to the least: none where that is over the budget;
    None where it takes too long to tell.

    Layers are numbered, and a set of them is a whole number with a bit for each. Which group runs first is left out: a
    cover need not be a schedule, but every schedule is a cover.
    """
    starting: list[list[tuple[int, float]]] = [[] for _ in range(layers)]
    for group, mine in slack.items():
        starting[(group & -group).bit_length() - 1].append((group, mine))
    everything = (1 << layers) - 1
    reached: list[dict[int, tuple[float, int, int]]] = [{} for _ in range(layers + 1)]
    reached[0][0] = (0.0, 0, 0)
    for first in range(layers):
        for done, (paid, *_) in reached[first].items():
            for group, mine in starting[first]:
                if group & done or paid + mine > budget:
                    continue
                after = done | group
                next_ = reached[(~after & (after + 1)).bit_length() - 1]
                if after not in next_ or paid + mine < next_[after][0]:
                    next_[after] = paid + mine, done, group
        if sum(map(len, reached)) > MOST_COVERS:
            return None
    found: list[int] = []
    done = everything
    while done and everything in reached[layers]:
        first = layers if done == everything else (~done & (done + 1)).bit_length() - 1
        _, done, group = reached[first][done]
        found.append(group)
    return found
