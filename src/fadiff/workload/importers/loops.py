"""Loops that a framework unrolled, rolled up again: a step that repeats in the place of many steps in a row.

A recurrence that was traced (a scan of a state-space model, a recurrent cell in a loop over time) arrives as the same
operators over and over. Steps are one loop where each does the same to tensors of the same shapes, and reads

- tensors that are the same for all steps, or each its own slice of them, at places that follow each other,
- tensors of its own, and of the step before,

and where those after the loop read tensors of the last step, or of all steps laid end to end. Blocks of a network that
have weights of their own are no loop: :mod:`fadiff.workload.importers.blocks` is for them.

One step is kept, and its operators repeat. What it takes over from the step before, and what those after the loop read,
goes through DRAM. Weights are the same in every step, so a loop with weights keeps its first step as it is, and the
others read them again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from fadiff.workload.importers.operators import (
    Carry,
    Concat,
    Convolution,
    Operator,
    OperatorGraph,
    Product,
    Recurrent,
    Reshape,
    Slice,
    Tensor,
)

FEWEST = 8
"""Steps from which on they are a loop."""
NEXT_TRIED = 8
"""Operators like the first one of a step that are tried as the first one of the next."""
STATE = "state of a loop"
"""The type of operators that carry it; frameworks have none for it."""
FROM_THE_STEP_BEFORE = "it is the state of the step before"
STEP_BY_STEP = "a loop leaves it step by step"


def note(count: int) -> str:
    """What a report says of a loop."""
    return f"a loop of {count} steps became layers that repeat"


class _Place(NamedTuple):
    """An output of an operator: its place in a step, and which of the outputs it is."""

    operator: int
    output: int


@dataclass(frozen=True, slots=True)
class _Loop:
    """`count` steps of `period` operators each, from operator number `start` on."""

    start: int
    period: int
    count: int

    def step(self, number: int) -> range:
        """Numbers of the operators of a step."""
        return range(self.start + number * self.period, self.start + (number + 1) * self.period)

    @property
    def stop(self) -> int:
        """The first operator behind it."""
        return self.start + self.count * self.period


def rolled(graph: OperatorGraph) -> OperatorGraph:
    """The graph with one step in the place of all steps of each loop."""
    operators = _by_step(graph)
    finder = _Finder(graph, operators)
    loops = list(finder.loops())
    if not loops:
        return graph
    roller = _Roller(graph, finder)
    kept: list[Operator] = []
    start = 0
    for loop in loops:
        kept += operators[start : loop.start]
        kept += roller.roll(loop)
        start = loop.stop
    kept = [roller.joined.get(operator.name, operator) for operator in (*kept, *operators[start:])]
    made = {name for operator in kept for name in operator.outputs}
    tensors = {name: t for name, t in roller.tensors.items() if t.role != "activation" or name in made}
    return replace(graph, tensors=tensors, operators=tuple(kept), notes=(*graph.notes, *roller.notes))


def _by_step(graph: OperatorGraph) -> list[Operator]:
    """The operators in an order in which what belongs to a step stands with it.

    Slices of a tensor that many slices are taken of, and reshapes of them, move to the operator that reads them. A
    reshape for a concatenation moves to the operator whose output it reshapes.
    """
    readers = Counter(name for operator in graph.operators for name in set(operator.inputs))
    slices = Counter(operator.inputs[0] for operator in graph.operators if isinstance(operator, Slice))
    joined = {name for operator in graph.operators if isinstance(operator, Concat) for name in operator.inputs}
    late = {o.outputs[0] for o in graph.operators if isinstance(o, Slice) and slices[o.inputs[0]] >= FEWEST}
    waiting: dict[str, Operator] = {}
    early: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for_concat = joined.intersection(operator.outputs) and readers[operator.outputs[0]] == 1
        if isinstance(operator, Reshape) and for_concat and operator.inputs[0] not in late:
            early.setdefault(operator.inputs[0], []).append(operator)
    hoisted = {operator.outputs[0] for row in early.values() for operator in row}
    order: list[Operator] = []

    def put(operator: Operator) -> None:
        for name in operator.inputs:
            if name in waiting:
                put(waiting.pop(name))
        order.append(operator)
        for name in operator.outputs:
            for other in early.pop(name, ()):
                put(other)

    for operator in graph.operators:
        first = operator.inputs[0] if operator.inputs else ""
        if operator.outputs and operator.outputs[0] in hoisted:
            if first in early:  # a reshape of what no operator makes
                early.pop(first)
                put(operator)
        elif not late.isdisjoint(operator.outputs) or (isinstance(operator, Reshape) and first in waiting):
            waiting[operator.outputs[0]] = operator
        else:
            put(operator)
    while waiting:
        put(waiting.pop(next(iter(waiting))))
    return order


class _Finder:
    """Searches operators for loops."""

    def __init__(self, graph: OperatorGraph, operators: list[Operator]) -> None:
        self.graph, self.operators = graph, operators
        self.maker = {
            name: (number, i) for number, operator in enumerate(operators) for i, name in enumerate(operator.outputs)
        }
        self.readers: dict[str, list[int]] = {}
        for number, operator in enumerate(operators):
            for name in operator.inputs:
                self.readers.setdefault(name, []).append(number)
        places: dict[object, list[int]] = {}
        for number, operator in enumerate(operators):
            places.setdefault(_look(graph, operator), []).append(number)
        self._looks = [0] * len(operators)
        self._next: list[list[int]] = [[] for _ in operators]
        for look, alike in enumerate(places.values()):
            for i, number in enumerate(alike):
                self._looks[number] = look
                self._next[number] = alike[i + 1 : i + 1 + NEXT_TRIED]

    def loops(self) -> Iterator[_Loop]:
        """All loops, from the first operator to the last."""
        start = 0
        while start < len(self.operators):
            found = (loop for other in self._next[start] if (loop := self._loop(start, other - start)) is not None)
            if (loop := next(found, None)) is not None:
                yield loop
            start = start + 1 if loop is None else loop.stop

    def _loop(self, start: int, period: int) -> _Loop | None:
        count = 1
        while self._continues(_Loop(start, period, count + 1)):
            count += 1
        loop = _Loop(start, period, count)
        if count >= FEWEST and (last := self._first_open(loop)) is not None:
            loop = replace(loop, count=last + 1)
        return loop if loop.count >= FEWEST and self._first_open(loop) is None else None

    def _continues(self, loop: _Loop) -> bool:
        """Whether the last step does what the first one does, and reads what the second one reads."""
        first, last = loop.step(0), loop.step(loop.count - 1)
        if last.stop > len(self.operators):
            return False
        if self._looks[last.start : last.stop] != self._looks[first.start : first.stop]:
            return False
        if loop.count == 2:
            return self._first_fits(loop)
        return self.sources(loop, loop.count - 1) == self.sources(loop, 1) and self._slices_follow(loop)

    def _first_fits(self, loop: _Loop) -> bool:
        """Whether the first step reads what the second one reads; for each state, a tensor there is at the start."""
        given: dict[_Place, str] = {}
        for own, other in zip(self.sources(loop, 0), self.sources(loop, 1), strict=True):
            if own != other and not (isinstance(own, str) and isinstance(other, tuple) and other[0] == "before"):
                return False
            if isinstance(own, str) and isinstance(other, tuple) and given.setdefault(other[1], own) != own:
                return False
        return bool(given)

    def _slices_follow(self, loop: _Loop) -> bool:
        """Whether slices of the last three steps are taken at places with equal distances."""
        steps = [[self.operators[number] for number in loop.step(loop.count - back)] for back in (3, 2, 1)]
        starts = [[start for o in step if isinstance(o, Slice) for start in o.start] for step in steps]
        return all(c - b == b - a for a, b, c in zip(*starts, strict=True))

    def sources(self, loop: _Loop, step: int) -> list[str | tuple[str, _Place]]:
        """What the operators of a step read: a place in it or in the step before, or a tensor from outside by name."""
        found: list[str | tuple[str, _Place]] = []
        own = loop.step(step)
        before = loop.step(step - 1) if step else range(0)
        for number in own:
            for name in self.operators[number].inputs:
                maker, output = self.maker.get(name, (-1, 0))
                if maker in own:
                    found.append(("own", _Place(maker - own.start, output)))
                elif maker in before:
                    found.append(("before", _Place(maker - before.start, output)))
                else:
                    found.append(name)
        return found

    def _first_open(self, loop: _Loop) -> int | None:
        """The first step but the last that those after the loop read, and not together with all others."""
        for step in range(loop.count - 1):
            for number in loop.step(step):
                for i, name in enumerate(self.operators[number].outputs):
                    place = _Place(number - loop.step(step).start, i)
                    after = (self.operators[reader] for reader in self.readers.get(name, ()) if reader >= loop.stop)
                    if name in self.graph.outputs or not all(self.joins(loop, place, reader) for reader in after):
                        return step
        return None

    def joins(self, loop: _Loop, place: _Place, reader: Operator) -> bool:
        """Whether an operator lays the tensors of all steps end to end, and none else, in either order."""
        pieces = [self.tensor(loop, step, place) for step in range(loop.count)]
        return isinstance(reader, Concat) and list(reader.inputs) in (pieces, pieces[::-1])

    def tensor(self, loop: _Loop, step: int, place: _Place) -> str:
        """The tensor at a place of a step."""
        return self.operators[loop.step(step).start + place.operator].outputs[place.output]


class _Roller:
    """Puts steps that repeat in the place of loops."""

    def __init__(self, graph: OperatorGraph, finder: _Finder) -> None:
        self._finder = finder
        self.tensors = dict(graph.tensors)
        self.joined: dict[str, Operator] = {}
        """By name: what stands for concatenations of all steps."""
        self.notes: dict[str, None] = {}

    def roll(self, loop: _Loop) -> Iterator[Operator]:
        """One step for all, with what it takes over and leaves."""
        finder = self._finder
        steps = [[finder.operators[number] for number in loop.step(step)] for step in range(2)]
        kept = int(any(self._has_weights(operator) for operator in steps[0]))
        if kept:
            yield from steps[0]
        states: dict[str, str] = {}
        carried: dict[_Place, None] = {}
        for given, source in zip(finder.sources(loop, kept), finder.sources(loop, 1), strict=True):
            if isinstance(source, tuple) and source[0] == "before":
                carried[source[1]] = None
                name = given if isinstance(given, str) else finder.tensor(loop, 0, source[1])
                if name not in states:
                    states[name], makers = self._state(name, steps[kept][0])
                    yield from makers
        for operator in steps[kept]:
            inputs = tuple(states.get(name, name) for name in operator.inputs)
            yield replace(operator, inputs=inputs, repeat=loop.count - kept, again=bool(kept))
        for place in carried:
            yield self._carry(steps[kept][0], (finder.tensor(loop, kept, place),), ())
        yield from self._left(loop, kept)
        self.notes[note(loop.count)] = None

    def _has_weights(self, operator: Operator) -> bool:
        return isinstance(operator, Convolution | Product | Recurrent) and any(
            self.tensors[name].is_fixed for name in operator.inputs if name
        )

    def _state(self, given: str, reader: Operator) -> tuple[str, list[Operator]]:
        """The tensor that a step reads as the state before it, and what makes it of the first state."""
        name = f"{given}.state"
        while name in self.tensors:
            name += "'"
        tensor = self.tensors[given]
        role = "activation" if tensor.role == "activation" else "input"
        self.tensors[name] = Tensor(name, tensor.shape, role)
        if role == "input":
            return name, []
        return name, [replace(self._carry(reader, (given,), (name,)), reason=FROM_THE_STEP_BEFORE)]

    def _left(self, loop: _Loop, kept: int) -> Iterator[Operator]:
        """What those after the loop read: tensors of the last step, and of all steps."""
        finder = self._finder
        for number in loop.step(loop.count - 1):
            for i, name in enumerate(finder.operators[number].outputs):
                place = _Place(number - loop.step(loop.count - 1).start, i)
                mine = tuple(finder.tensor(loop, step, place) for step in range(kept + 1))
                for reader in (finder.operators[r] for r in finder.readers.get(name, ()) if r >= loop.stop):
                    if finder.joins(loop, place, reader):
                        carry = self._carry(reader, mine, reader.outputs)
                        self.joined[reader.name] = replace(carry, name=reader.name, type=reader.type)
                single = [r for r in finder.readers.get(name, ()) if finder.operators[r].name not in self.joined]
                if any(r >= loop.stop for r in single) or name in finder.graph.outputs:
                    yield self._carry(finder.operators[number], mine[-1:], (name,))

    def _carry(self, operator: Operator, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Carry:
        name = f"{operator.name}.state"
        return Carry(name=name, type=STATE, inputs=inputs, outputs=outputs, reason=STEP_BY_STEP)


_NOT_LOOKED_AT = frozenset({"name", "part", "inputs", "outputs", "start"})


def _look(graph: OperatorGraph, operator: Operator) -> object:
    """All of an operator but its name, which tensors of their shapes it reads, and where it slices."""
    settings = tuple(getattr(operator, f.name) for f in fields(operator) if f.name not in _NOT_LOOKED_AT)
    shapes = tuple(graph.shape(name) if name else None for name in (*operator.inputs, "", *operator.outputs))
    return type(operator), settings, shapes
