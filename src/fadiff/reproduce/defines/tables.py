"""Reading DeFiNES' tables: CSV rows and JSON objects as checked values, with one sentence on whatever is wrong."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from fadiff.files import parse, validate

SHIPPED: Traversable = resources.files("fadiff.reproduce.defines") / "data"


class TableRow(BaseModel):
    """A row of a table: text becomes numbers; columns that are not named follow from others, or are not needed."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Row = TypeVar("Row", bound=TableRow)
Model = TypeVar("Model", bound=BaseModel)


def read_rows(model: type[Row], lines: Iterable[str], origin: str) -> list[Row]:
    """Rows of a table's text."""
    return check_rows(model, csv.DictReader(lines), origin)


def check_rows(model: type[Row], rows: Iterable[Mapping[str, object]], origin: str) -> list[Row]:
    """Rows of a table, cell by cell; empty cells count as absent."""
    return [
        validate(model, {name: cell for name, cell in cells.items() if cell != ""}, f"{origin}: row {number}")
        for number, cells in enumerate(rows, 1)
    ]


def read_objects(model: type[Model], folder: Traversable, name: str) -> dict[str, Model]:
    """The objects of a JSON file, by name."""
    objects = parse((folder / name).read_text(encoding="utf-8"), name)
    return {key: validate(model, value, f"{name}: {key}") for key, value in objects.items()}
