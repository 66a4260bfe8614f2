"""What co-design has tried, a row for each machine: in memory, and on disk where a folder is given.

A row is there once its machine is scored and its schedules are written, so a search that is killed loses at most the
machine under way, and goes on from its rows when it is started again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fadiff.cost import evaluate, load_schedule, save_schedule
from fadiff.files import FileError, check_mapping, parse, read_text, write_text
from fadiff.hardware import machine_area, machine_to_json

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question

FORMAT = "fadiff-codesign/1"
ROWS, QUESTION, PROPOSED = "rows.jsonl", "question.json", "proposed.json"
LONGEST_STEM = 80
TAKEN = "machine"
"""No network's stem, since `best.machine.json` is the best machine."""


def stems(names: Sequence[str]) -> dict[str, str]:
    """What networks are called in the names of files: without signs that lead elsewhere, not too long, each its own.

    >>> stems(["resnet18:size=96", "../a b", "../a-b"])
    {'resnet18:size=96': 'resnet18:size=96', '../a b': '..-a-b', '../a-b': '..-a-b.2'}
    """
    found: dict[str, str] = {}
    for name in names:
        stem, taken = re.sub(r"[^\w.:=,-]+", "-", name)[:LONGEST_STEM], {TAKEN, *found.values()}
        options = (stem, *(f"{stem}.{n}" for n in range(2, len(taken) + 2)))
        found[name] = next(one for one in options if one not in taken)
    return found


@dataclass(frozen=True)
class Row:
    """A machine that was tried."""

    number: int
    values: Values
    area_mm2: float
    score: float
    """Logarithm of what is to be least; infinite where a network has no schedule."""
    costs: dict[str, dict[str, float]]
    """By network: `energy_pj`, `cycles`, `edp_uj_cycles`."""
    origin: str
    """Who proposed it: `proposed`, `start` of a climb, shrink, a move of the climb, study, full or price."""
    effort_seconds: float
    """What its schedules were searched for."""
    seconds: float
    """When it was done."""
    problem: str = ""
    """Why there is no schedule."""


@dataclass
class Rows:
    """Rows by the values of their machines, the latest of each."""

    question: Question
    folder: Path | None = None
    rows: list[Row] = field(default_factory=list[Row])
    schedules: dict[int, tuple[Evaluation, ...]] = field(default_factory=dict[int, "tuple[Evaluation, ...]"])
    how: dict[str, object] = field(default_factory=dict[str, object])
    """What of the settings the rows depend on."""

    def __post_init__(self) -> None:
        self._proposed: list[Values] | None = None
        if self.folder is not None:
            self._open(self.folder)

    @property
    def proposed(self) -> list[Values] | None:
        """The machines to score first; None as long as nobody has proposed any."""
        return self._proposed

    def propose(self, proposed: list[Values], *, keep: bool = True) -> None:
        """Note the machines to score first; where they are not kept, a later search proposes anew."""
        self._proposed = proposed
        if self.folder is not None and keep:
            write_text(self.folder / PROPOSED, json.dumps(proposed) + "\n")

    def find(self, values: Values) -> Row | None:
        """The best row of a machine."""
        mine = [row for row in self.rows if row.values == values]
        return min(mine, key=lambda row: row.score, default=None)

    @property
    def best(self) -> Row | None:
        """The best machine within the area."""
        fitting = [row for row in self.rows if row.score < inf and row.area_mm2 <= self.question.area_mm2 * (1 + 1e-9)]
        return min(fitting, key=lambda row: (row.score, row.area_mm2, row.number), default=None)

    @property
    def front(self) -> list[Row]:
        """Rows that no other beats in both area and score, the smallest first; prices beyond the area are there too."""
        found: list[Row] = []
        for row in sorted(self.rows, key=lambda row: (row.area_mm2, row.score, row.number)):
            if row.score < (found[-1].score if found else inf):
                found.append(row)
        return found

    def add(
        self,
        values: Values,
        evaluations: tuple[Evaluation, ...],
        origin: str,
        effort_seconds: float,
        seconds: float,
        problem: str = "",
    ) -> Row:
        """Keep a machine and its schedules; first on disk."""
        machine, number = self.question.space.at(values), 1 + max((row.number for row in self.rows), default=-1)
        names = [workload.name for workload in self.question.workloads]
        row = Row(
            number=number,
            values=values,
            area_mm2=machine_area(machine).total,
            score=self.question.score(machine, evaluations) if evaluations else inf,
            costs={name: one.stated().model_dump() for name, one in zip(names, evaluations, strict=False)},
            origin=origin,
            effort_seconds=effort_seconds,
            seconds=seconds,
            problem=problem,
        )
        if self.folder is not None:
            for name, one in zip(names, evaluations, strict=False):
                save_schedule(self.schedule_path(self.folder, number, name), one.schedule)
            document = asdict(row) | {"score": None if row.score == inf else row.score}
            with (self.folder / ROWS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(document) + "\n")
        self.rows.append(row)
        self.schedules[number] = evaluations
        return row

    def evaluations(self, row: Row) -> tuple[Evaluation, ...]:
        """The schedules of a row, from disk if need be."""
        if row.number not in self.schedules and self.folder is not None:
            paths = [self.schedule_path(self.folder, row.number, name) for name in row.costs]
            self.schedules[row.number] = tuple(evaluate(load_schedule(path)) for path in paths)
        return self.schedules[row.number]

    def schedule_path(self, folder: Path, number: int, network: str) -> Path:
        """Where the schedule of a network on a machine stands."""
        stem = stems([workload.name for workload in self.question.workloads])[network]
        return folder / "schedules" / f"{number:04d}.{stem}.json"

    def _open(self, folder: Path) -> None:
        """Make the folder, or read what an earlier search left in it; that of another question is refused."""
        try:
            (folder / "schedules").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{folder}: it cannot be made ({error.strerror}): choose another place") from None
        asked = _asked(self.question) | self.how
        path = folder / QUESTION
        if path.exists():
            known = parse(read_text(path), str(path))
            check_mapping(known, str(path))
            differ = [key for key in asked if known.get(key) != asked[key]]
            if differ:
                told = f"an earlier search is there that was told another {', another '.join(differ)}"
                raise FileError(f"{folder}: {told}: choose another folder, or ask the same")
        else:
            write_text(path, json.dumps(asked, indent=1) + "\n")
        if (folder / PROPOSED).exists():
            proposed = parse(read_text(folder / PROPOSED), str(folder / PROPOSED))
            if not isinstance(proposed, list) or not all(map(self._is_machine, cast("list[object]", proposed))):
                raise FileError(f"{folder / PROPOSED}: these are no machines of the space: delete the file")
            self._proposed = [tuple(values) for values in cast("list[list[float]]", proposed)]
        if (folder / ROWS).exists():
            rows = [row for line in read_text(folder / ROWS).splitlines() if (row := _row(line)) is not None]
            # What was cut off in the middle of a line is forgotten, so that new rows begin on lines of their own. Rows
            # whose schedules are gone are forgotten too: their machines are scored again.
            self.rows = [row for row in rows if self._is_machine([*row.values]) and self._has_schedules(folder, row)]
            kept = [json.dumps(asdict(row) | {"score": None if row.score == inf else row.score}) for row in self.rows]
            write_text(folder / ROWS, "".join(f"{line}\n" for line in kept))

    def _is_machine(self, values: object) -> bool:
        """Whether values of a file are those of a machine of the space."""
        numbers = self.question.space.numbers
        given = cast("list[object]", values) if isinstance(values, list) else []
        return len(given) == len(numbers) and all(
            isinstance(value, int | float) and number.low <= value <= number.high
            for number, value in zip(numbers, given, strict=True)
        )

    def _has_schedules(self, folder: Path, row: Row) -> bool:
        networks = {workload.name for workload in self.question.workloads}
        return networks.issuperset(row.costs) and all(
            self.schedule_path(folder, row.number, name).is_file() for name in row.costs
        )


def _asked(question: Question) -> dict[str, Any]:
    """What two searches must have in common to share rows."""
    space = question.space
    ranges = [asdict(number) for number in space.numbers]
    ends = [machine_to_json(space.at(end)) for end in (space.smallest, space.largest)]
    networks = {
        workload.name: sha256(repr(workload.layers).encode()).hexdigest()[:16] for workload in question.workloads
    }
    return {
        "format": FORMAT,
        "networks": networks,
        "weights": list(question.shares),
        "space": {"numbers": ranges, "ends": ends},
        "objective": question.aim,
        "area_mm2": None if question.area_mm2 == inf else question.area_mm2,
    }


def _row(line: str) -> Row | None:
    """A row of a file; None where the line was cut off."""
    try:
        document = json.loads(line)
        score = inf if document["score"] is None else document["score"]
        return Row(**document | {"values": tuple(document["values"]), "score": score})
    except (json.JSONDecodeError, KeyError, TypeError):
        return None
