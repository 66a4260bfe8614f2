"""Neighbours of a machine: one number more or less, one traded for another, and memories no larger than needed."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import Memory, machine_area, pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import Examined

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Space
    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question

STRIDES = (1.5, 1.2, 1.06)
"""A number that may be any moves by about one of these factors."""


class Move(NamedTuple):
    """A neighbour of a machine."""

    name: str
    """What changes, for people."""
    values: Values


def single_moves(space: Space, values: Values, stride: float = STRIDES[0]) -> Iterator[Move]:
    """One number more, or less."""
    for i, number in enumerate(space.numbers):
        for way, sign in ((1, "more"), (-1, "less")):
            changed = _moved(space, values, i, way, stride)
            if changed is not None:
                yield Move(f"{sign} {number.name}", changed)


def swap_moves(question: Question, values: Values, stride: float = STRIDES[0]) -> Iterator[Move]:
    """One number more and another less: lanes at a constant product, memories so that the area stays."""
    space = question.space
    before = machine_area(space.at(values)).total
    for i, number in enumerate(space.numbers):
        more = _moved(space, values, i, 1, stride)
        for j, other in enumerate(space.numbers):
            if more is None or i == j or number.unit != other.unit:
                continue
            name = f"{number.name} for {other.name}"
            if other.powers_of is not None:
                changed = _moved(space, more, j, -1, stride)
                if changed is not None:
                    yield Move(name, changed)
                continue
            shrunk = more
            while shrunk is not None and machine_area(space.at(shrunk)).total > before * (1 + 1e-9):
                step = other.next(shrunk[j], -1)
                shrunk = None if step is None else _with(shrunk, j, step)
            if shrunk is not None and shrunk != more:
                yield Move(name, shrunk)


def neighbours(question: Question, values: Values, stride: float = STRIDES[0]) -> list[Move]:
    """All neighbours within the area, each once; swaps first, since they find what single moves cannot.

    What is too large gives up memory. Where that is not enough for the lanes that a move adds, it leads nowhere.
    """
    space = question.space
    found: dict[Values, Move] = {}
    for move in (*swap_moves(question, values, stride), *single_moves(space, values, stride)):
        fitted = move.values if question.fits(move.values) else question.fitted(move.values)
        if fitted != values and question.fits(fitted) and _lanes(space, fitted) == _lanes(space, move.values):
            found.setdefault(fitted, move._replace(values=fitted))
    return list(found.values())


def _lanes(space: Space, values: Values) -> Values:
    """The numbers that are powers, such as the sides of arrays."""
    return tuple(value for number, value in zip(space.numbers, values, strict=True) if number.powers_of is not None)


def needed_values(space: Space, values: Values, evaluations: tuple[Evaluation, ...]) -> Values:
    """The machine with memories as small as its schedules allow, in steps that can be built."""
    shrunk = values
    for i, number in enumerate(space.numbers):
        if number.unit != "bytes":
            continue
        while (less := number.next(shrunk[i], -1)) is not None and _holds(space, _with(shrunk, i, less), evaluations):
            shrunk = _with(shrunk, i, less)
    return shrunk


def _holds(space: Space, values: Values, evaluations: tuple[Evaluation, ...]) -> bool:
    """Whether the memories of a machine have room for schedules that were made for another one."""
    machine = space.at(values)
    for one in evaluations:
        for memory, need in peak_bytes(one).items():
            node = machine.nodes[machine.number[memory]]
            if isinstance(node, Memory) and need > node.usable_bytes:
                return False
    return True


def peak_bytes(evaluation: Evaluation) -> dict[str, float]:
    """The fullest that each memory below the first gets."""
    schedule = evaluation.schedule
    examined, machine = Examined(schedule), schedule.machine
    total = needs(examined.nest, examined.placement, pack_machine(machine)).total
    return {machine.nodes[node].name: float(np.max(np.asarray(held), initial=-inf)) for node, held in total.items()}


def _moved(space: Space, values: Values, i: int, way: int, stride: float) -> Values | None:
    """One number a stride up or down; None at the end of its range."""
    number = space.numbers[i]
    if number.powers_of is not None or number.step is not None:
        value = number.next(values[i], 1 if way > 0 else -1)
    else:
        value = number.rounded(values[i] * stride**way)
        value = number.next(values[i], 1 if way > 0 else -1) if value == values[i] else value
    return None if value is None else _with(values, i, value)


def _with(values: Values, i: int, value: float) -> Values:
    return (*values[:i], value, *values[i + 1 :])
