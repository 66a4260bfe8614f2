"""A space of machines as a file: a hardware file in which some numbers are ranges, or tied to others.

.. code-block:: yaml

    nodes:
      - {memory: DRAM, keeps: WIO, words_per_cycle: 8}
      - {memory: scratchpad, keeps: WI, fuses: true, bytes: {from: 16 KB, to: 2 MB}, words_per_cycle: 2 * cols}
      - {axis: cols, size: {from: 8, to: 128, powers_of: 2}, dims: KG}
      ...

A tie is a product of numbers and names, with `*` and `/`. A name is that of a node, for the same key of a memory or the
size of an axis; a node and its key, `scratchpad.bytes`; or one of the `numbers` at the top of the file, which stand for
themselves. Short keys of the Gemmini template may have ranges too: `rows`, `cols`, `l1`, `l2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import floor, inf, sqrt
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field as Key

from fadiff.file_kinds import HARDWARE, read_data
from fadiff.files import FileError, Strict, check_mapping, validate
from fadiff.hardware.gemmini import WORD_BITS, GemminiFileModel
from fadiff.hardware.machine import RATES, Machine, MachineError, check_room
from fadiff.hardware.nodes_file import ENERGIES, EXTRAPOLATED, FROM_CAPACITY, Filled, MemoryFileModel, NodesFileModel
from fadiff.hardware.quantities import BYTES_PER_UNIT, CAPACITY_PATTERN, bytes_per_second, bytes_with_unit, clock_mhz
from fadiff.hardware.space import Field, Follows, FreeNumber, Product, Space, Varied

TIMED = {rate.replace("words_per_cycle", "rate"): rate for rate in RATES}
"""Rates as bytes a second, and the keys that state them in words per cycle."""
WHOLE = ("size", "bytes", "row_bits")
VARIABLE = ("size", "bytes", *RATES, *TIMED, "row_bits")
"""Keys of nodes that may have a range or a tie."""
SHORT = ("rows", "cols", "l1", "l2", "l1_bytes", "l2_bytes")
"""Short keys that may have a range."""
UNITS = {
    "size": "lanes",
    "bytes": "bytes",
    "row_bits": "bits",
    **dict.fromkeys(RATES, "words/cycle"),
    **dict.fromkeys(TIMED, "bytes/s"),
}
NONE_BUT_NODES = "only keys of nodes may have a range"
MOST_NUMBERS = 64
FACTOR = re.compile(r"\s*([*/])\s*")
PLAIN = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")
RANGE = "{from: 16 KB, to: 2 MB}"

Place = tuple[str, str]
"""A node and its key, or "" and one of the `numbers`."""


class RangeModel(Strict):
    """A range, and which of it can be built."""

    low: Any = Key(alias="from")
    high: Any = Key(alias="to")
    powers_of: Annotated[int, Key(ge=2, le=1024)] | None = None
    step: Any = None


def has_ranges(data: object) -> bool:
    """Whether the values of a hardware file leave any number free."""
    if not isinstance(data, Mapping):
        return False
    file = cast("Mapping[str, Any]", data)
    return "numbers" in file or any(_is_range(value) for _, _, value in _given(file))


def read_space(path: Path | str) -> Space:
    """A space of machines from a YAML or JSON file."""
    return space_of(read_data(Path(path), HARDWARE), str(path))


def space_of(data: object, origin: str) -> Space:
    """The space that the values of a file stand for; `origin` names the file in errors."""
    check_mapping(data, origin)
    if not has_ranges(data):
        raise FileError(
            f"{origin}: this is one machine, none of its numbers is free: give some a range, such as bytes: {RANGE}"
        )
    _check_places(cast("Mapping[str, Any]", data), origin)
    try:
        return _Reader(_as_nodes(cast("dict[str, Any]", data), origin), origin).space()
    except MachineError as error:
        raise FileError(f"{origin}: {error}") from None


def _check_places(data: Mapping[str, Any], origin: str) -> None:
    """Raise where a key of the file itself, which is no node's, has a range and may not."""
    may = () if "nodes" in data else SHORT
    for key, value in data.items():
        inner: Mapping[str, Any] = cast("Any", value) if isinstance(value, Mapping) and key != "numbers" else {}
        odd = [key] if _is_range(inner) else [f"{key}.{name}" for name, one in inner.items() if _is_range(one)]
        if odd and key not in may:
            told = f"only {', '.join(may)} may have a range in the short form" if may else NONE_BUT_NODES
            raise FileError(f"{origin}: {odd[0]}: {told}: give it one value")


def _is_range(value: object) -> bool:
    keys = {field.alias or name for name, field in RangeModel.model_fields.items()}
    return isinstance(value, Mapping) and bool(keys & set(cast("Mapping[str, Any]", value)))


def _given(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """What may vary: node (or ""), key and value."""
    nodes = data.get("nodes")
    if isinstance(nodes, list):
        for node in cast("list[Any]", nodes):
            if isinstance(node, Mapping):
                mine = cast("Mapping[str, Any]", node)
                name = str(mine.get("memory", mine.get("axis", "")))
                yield from ((name, key, mine[key]) for key in VARIABLE if key in mine)
    else:
        yield from (("", key, data[key]) for key in SHORT if key in data)


def _as_nodes(data: dict[str, Any], origin: str) -> dict[str, Any]:
    """The file as a list of nodes: short keys become nodes that are tied to them."""
    if "nodes" in data:
        return data
    ranges = {key: value for key, value in data.items() if key in SHORT and _is_range(value)}
    lows = {key: validate(RangeModel, value, f"{origin}: {key}").low for key, value in ranges.items()}
    plain = validate(GemminiFileModel, {**data, **lows}, origin)
    file = plain.nodes_file()
    made: dict[str, Any] = file.model_dump(exclude={"nodes"}, exclude_unset=True, exclude_none=True)
    made["nodes"] = [node.model_dump(exclude_unset=True, exclude_none=True) for node in file.nodes]
    described = {key: data[key] for key in ("description", "source", "notes") if key in data}
    scratchpad, cols, accumulator, rows = (made["nodes"][i] for i in (1, 2, 3, 4))
    for node, key in ((cols, "cols"), (rows, "rows")):
        node["size"] = ranges.get(key, node["size"])
    scratchpad["bytes"] = ranges.get("l2", ranges.get("l2_bytes", scratchpad["bytes"]))
    total = ranges.get("l1", ranges.get("l1_bytes"))
    accumulator["bytes"] = f"{plain.l1 or plain.l1_bytes} / cols" if total is None else "l1 / cols"
    scratchpad["row_bits"] = f"{WORD_BITS} * cols"
    if plain.words_per_cycle.L2 is None:
        scratchpad["words_per_cycle"] = "2 * cols"
    return {**made, **described, **({} if total is None else {"numbers": {"l1": total}})}


@dataclass
class _Reader:
    """A file on its way to a space."""

    data: dict[str, Any]
    origin: str

    def space(self) -> Space:
        """The space; what is wrong with it is told with its place."""
        self.free: list[FreeNumber] = []
        self.known: dict[Place, Product] = {}
        self.under_way: list[Place] = []
        self.used: set[str] = set()
        """Those of the `numbers` that ties refer to."""
        self.nodes = self._nodes()
        numbers = self.data.get("numbers", {})
        if not isinstance(numbers, Mapping):
            raise self._wrong("numbers", "this must be a mapping of names to ranges")
        self.numbers = {str(name): value for name, value in cast("Mapping[Any, Any]", numbers).items()}
        if (both := next((name for name in self.numbers if name in self.nodes), None)) is not None:
            raise self._wrong(f"numbers.{both}", "a node has this name, and ties could mean either: rename one")
        places = [("", name) for name in self.numbers]
        for place in (*places, *self._varying()):
            self._product(place)
        unused = next((name for name in self.numbers if name not in self.used), None)
        if unused is not None:
            raise self._wrong(unused, f"nothing is tied to it: tie a key of a node to it, such as bytes: {unused}")
        if len(self.free) > MOST_NUMBERS:
            raise FileError(f"{self.origin}: {len(self.free)} numbers are free: at most {MOST_NUMBERS} can be")
        machine, follows = self._machine([sqrt(number.low * number.high) for number in self.free])
        space = Space(machine.name, tuple(self.free), machine, tuple(self._varied(machine)), follows)
        for end in (0, 1):
            self._machine([number.ends[end] for number in self.free])
        for varied in space.varied:
            shrinking = {i for i, exponent in varied.product.powers if exponent < 0}
            check_room(space.at([number.ends[i in shrinking] for i, number in enumerate(space.numbers)]))
        return space

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """The nodes by name."""
        found: dict[str, dict[str, Any]] = {}
        nodes = self.data["nodes"]
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in cast("list[Any]", nodes)):
            raise self._wrong("nodes", "this must be a list of nodes, each a mapping of keys to values")
        for i, node in enumerate(cast("list[dict[str, Any]]", nodes)):
            name = node.get("axis", node.get("memory"))
            if not isinstance(name, str):
                raise self._wrong(f"nodes.{i}", "this is neither a memory nor an axis: give it a name")
            if name in found:
                raise self._wrong(f"nodes.{i}", f"there are two nodes named {name!r}: rename one")
            odd = next((key for key, value in node.items() if key not in VARIABLE and _is_range(value)), None)
            if odd is not None:
                told = f"only {', '.join(VARIABLE)} may have a range: give it one value"
                raise self._wrong(f"{name}.{odd}", told)
            found[name] = node
        return found

    def _varies(self, key: str, value: object) -> bool:
        """Whether a value is a range or a tie, and no plain number."""
        return isinstance(value, Mapping) or (isinstance(value, str) and _plain(key, value) is None)

    def _product(self, place: Place) -> Product:
        """What stands at a place, in terms of free numbers."""
        if place in self.known:
            return self.known[place]
        if place in self.under_way:
            circle = " to ".join(_told(one) for one in [*self.under_way[self.under_way.index(place) :], place])
            raise self._wrong(_told(place), f"ties go round, {circle}: give one of them a number or a range")
        self.under_way.append(place)
        name, key = place
        value = self.nodes[name].get(key) if name else self.numbers[key]
        if isinstance(value, Mapping):
            found = Product(1.0, ((len(self.free), 1),))
            self.free.append(self._range(place, cast("Mapping[str, Any]", value)))
        elif isinstance(value, str) and _plain(key, value) is None:
            found = self._tie(place, value)
        else:
            found = Product(self._quantity(place, value))
        self.under_way.pop()
        self.known[place] = found
        return found

    def _range(self, place: Place, value: Mapping[str, Any]) -> FreeNumber:
        given = validate(RangeModel, value, f"{self.origin}: {_told(place)}")
        low, high = self._quantity(place, given.low), self._quantity(place, given.high)
        if low > high:
            raise self._wrong(_told(place), f"the range goes from {given.low} down to {given.high}: turn it round")
        if low == high:
            raise self._wrong(_told(place), f"the range from {given.low} to {given.high} is empty: write {given.low}")
        step = None if given.step is None else self._quantity(place, given.step)
        if step is not None and given.powers_of is not None:
            raise self._wrong(_told(place), "it has powers_of and step: keep one of the two")
        if step is not None and low + step > high:
            raise self._wrong(
                _told(place), f"no step of {given.step} from {given.low} is within {given.high}: make it smaller"
            )
        whole = place[1] in WHOLE or (not place[0] and float(low).is_integer() and float(high).is_integer())
        if place[1] in WHOLE and not all(float(one).is_integer() for one in (low, high, step or 1)):
            told = f"it goes from {given.low} to {given.high}" + (f" in steps of {given.step}" if step else "")
            raise self._wrong(_told(place), f"{told}, and only whole {UNITS[place[1]]} can be built: round them")
        unit = UNITS.get(place[1], "bytes" if isinstance(given.low, str) else "")
        number = FreeNumber(_told(place), unit, low, high, whole, given.powers_of, step)
        if given.powers_of is not None and not any(low <= given.powers_of**n <= high for n in range(64)):
            raise self._wrong(
                _told(place), f"no power of {given.powers_of} is between {given.low} and {given.high}: widen the range"
            )
        return number

    def _tie(self, place: Place, text: str) -> Product:
        """A product of numbers and names."""
        first, *others = FACTOR.split(text.strip())
        found = self._factor(place, first, text)
        for sign, factor in zip(others[::2], others[1::2], strict=True):
            found = found.times(self._factor(place, factor, text), 1 if sign == "*" else -1)
        return found

    def _factor(self, place: Place, factor: str, text: str) -> Product:
        if (plain := _plain(place[1], factor)) is not None:
            if not plain > 0:
                raise self._wrong(_told(place), f"{text!r} has a factor of 0: all numbers are positive")
            return Product(plain)
        if factor in self.numbers:
            self.used.add(factor)
            return self._product(("", factor))
        name, key = (factor, "") if factor in self.nodes else factor.rpartition(".")[::2]
        node = self.nodes.get(name)
        if node is None:
            if re.search(r"[-+()^]", factor):
                raise self._wrong(_told(place), f"{text!r} is no product: tie it with * and / alone")
            known = [*self.numbers, *self.nodes]
            close = get_close_matches(factor, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            names = ", ".join(known)
            raise self._wrong(_told(place), f"{text!r} refers to {factor!r}, which is nothing{hint}: use {names}")
        key = key or ("size" if "axis" in node else place[1] if place[0] else "bytes")
        if key not in VARIABLE or key not in node:
            raise self._wrong(_told(place), f"{text!r} refers to {name}.{key}, which the file does not state")
        return self._product((name, key))

    def _quantity(self, place: Place, value: object) -> float:
        """A positive number of what a key is about."""
        found = _plain(place[1], value) if isinstance(value, str) else value
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < inf:
            raise self._wrong(_told(place), f"{value!r} is no positive number{_example(place[1])}")
        return float(found)

    def _words(self, name: str, key: str) -> tuple[Field, Product]:
        """A key that varies as a field of a memory or axis; bytes a second as words per cycle."""
        product = self._product((name, key))
        if key not in TIMED:
            return cast("Field", key), product
        clock, word_bits = self.data.get("clock"), self.nodes[name].get("word_bits", 8)
        if TIMED[key] in self.nodes[name]:
            raise MachineError(f"{name} has {key} and {TIMED[key]}: keep one of the two")
        if clock is None:
            raise MachineError(f"{name}: {key} takes a clock to be words per cycle: add one, such as clock: 800 MHz")
        return cast("Field", TIMED[key]), product.times(Product(8 / word_bits / (clock_mhz(clock) * 1e6)), 1)

    def _varying(self) -> Iterator[tuple[str, str]]:
        for name, node in self.nodes.items():
            yield from ((name, key) for key in VARIABLE if key in node and self._varies(key, node[key]))

    def _machine(self, values: list[float]) -> tuple[Machine, tuple[Follows, ...]]:
        """A machine of the space, and the energies that move with the free numbers."""
        nodes = {name: dict(node) for name, node in self.nodes.items()}
        for name, key in self._varying():
            field, product = (key, self._product((name, key))) if key == "row_bits" else self._words(name, key)
            try:
                value = product.of(values)
            except OverflowError:
                raise self._wrong(f"{name}.{key}", "it has no bounds: take factors out of its tie") from None
            del nodes[name][key]
            nodes[name][field] = max(1, floor(value + 1e-9)) if field in WHOLE else value
        data = {key: value for key, value in self.data.items() if key != "numbers"}
        file = validate(NodesFileModel, {**data, "nodes": list(nodes.values())}, self.origin)
        machine, filled = file.filled_in()
        return machine, tuple(self._follows(file, filled))

    def _varied(self, machine: Machine) -> Iterator[Varied]:
        for name, key in self._varying():
            if key != "row_bits":
                yield Varied(machine.number[name], *self._words(name, key))

    def _follows(self, file: NodesFileModel, filled: Filled) -> Iterator[Follows]:
        """Energies that the file states as a law, or leaves to the network, of memories that vary."""
        varying = {name for name, _ in self._varying()}
        for i, (name, node) in enumerate(zip(self.nodes, file.nodes, strict=True)):
            if not isinstance(node, MemoryFileModel) or name not in varying:
                continue
            for key in ENERGIES:
                if (law := node.law(key)) is not None:
                    yield Follows(i, key, law)
                elif filled.get(f"{name}.{key}") in (FROM_CAPACITY, EXTRAPOLATED):
                    width = self._product((name, "row_bits")) if "row_bits" in self.nodes[name] else None
                    yield Follows(i, key, row_bits=width)

    def _wrong(self, place: str, problem: str) -> FileError:
        return FileError(f"{self.origin}: {place}: {problem}")


def _plain(key: str, text: object) -> float | None:
    """A text that is a plain quantity and no tie: a number, bytes with a unit, or bytes a second."""
    if not isinstance(text, str):
        return None
    if PLAIN.fullmatch(text.strip()):
        return float(text)
    readers: list[Callable[[object], float]] = [bytes_per_second] if key in TIMED else []
    if (found := CAPACITY_PATTERN.fullmatch(text.strip())) and found[2] in BYTES_PER_UNIT:
        readers.append(bytes_with_unit)
    for read in readers:
        try:
            return float(read(text))
        except ValueError:
            continue
    return None


def _told(place: Place) -> str:
    return place[1] if not place[0] else ".".join(place)


def _example(key: str) -> str:
    examples = {"bytes": " of bytes: write for example 64 KB", "size": " of lanes: write for example 32"}
    return examples.get(key, " a second: write for example 12.8 GB/s" if key in TIMED else "")
