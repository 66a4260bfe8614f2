"""The gradient's place: deep machines and networks of hundreds of different layers, where spaces are largest.

On a Gemmini the discrete search ends within seconds, and the descent adds nothing to it. Here both are asked where
enumeration is hardest, in the same time; the bound says what is left to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax

from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import Run, measure, result_of
from fadiff.search.gradient.device import AT_ONCE
from fadiff.search.gradient.settings import DescentSettings
from fadiff.search.solver.network_bound import prove
from fadiff.sweeps.local import share_accelerator
from fadiff.sweeps.rows import Row
from fadiff.workload import Dims, Input, Layer, Workload

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk

CELLS = (
    ("resnet18", "simba"),
    ("bert-base", "simba"),
    ("mobilenet_v2", "ascend-like-df"),
    ("bert-base", "tesla-npu-like-df"),
    ("different200", "gemmini-large"),
)
METHODS = ("exact", "joint", "descent")
BUDGET_S, QUICK_BUDGET_S = 45.0, 12.0
CORES = "cores"
"""What a processor is called in rows."""


def different(layers: int) -> Workload:
    """A chain of 3x3 and 1x1 convolutions by turns on 28x28 maps, each with one channel more than the one before."""
    names = [f"conv{i}" for i in range(layers)]
    sizes = [Dims(C=16 + i, K=17 + i, P=28, Q=28, R=3 - i % 2 * 2, S=3 - i % 2 * 2) for i in range(layers)]
    inputs = [(Input(name),) for name in (None, *names[:-1])]
    made = (Layer(name, "mac", dims, mine) for name, dims, mine in zip(names, sizes, inputs, strict=True))
    return Workload(f"different{layers}", tuple(made))


class DeviceRun(NamedTuple):
    """One search on one device; the fields name the columns that tell runs apart."""

    model: str
    hardware: str
    method: str
    seed: int
    budget_s: float
    device: str

    @property
    def run(self) -> Run:
        """The search, wherever it is done."""
        return Run(*self[:-1])

    def __str__(self) -> str:
        return str(self.run)


def reproduce(desk: Desk) -> str:
    """Search every cell with every method, prove what exact found, and tell how far each is from the bound.

    Where rows of other devices are kept, these are told, too.
    """
    budget, device = QUICK_BUDGET_S if desk.quick else BUDGET_S, _device(desk.jobs)
    runs = [DeviceRun(*cell, method, 0, budget, device) for cell, method in product(CELLS, METHODS)]
    measure(desk, runs, _row, DeviceRun._fields)
    return f"""\
### Deep machines and many different layers

```
{desk.command()}
```

{budget:g} s a run, and as much for the proof, on the device that JAX finds. On cores the descent has
{DescentSettings().restarts} restarts; on an accelerator up to {AT_ONCE:,}, all at once. Every search is done twice and
the second counts, so that none compiles what another finds compiled. `different200` are 200 different convolutions in a
row. By how much the EDP that each method itself found is above the bound, at most; in brackets the time after which it
had found it:

{_table(desk.rows(DeviceRun._fields))}"""


def _device(jobs: int) -> str:
    """What the searches run on."""
    if jobs > 1:
        share_accelerator()
    device = cast("Any", jax.devices()[0])
    return CORES if device.platform == "cpu" else str(device.device_kind)


def _row(job: DeviceRun) -> list[Row]:
    """What the method itself found, and the bound that is proven of it. Interrupted, it is no result."""
    run, prefix = job.run, "different"
    model = different(int(run.model.removeprefix(prefix))) if run.model.startswith(prefix) else run.model
    # A search that compiles cannot be held against one whose programs are there already, so all find them compiled.
    result_of(run, model)
    found = result_of(run, model)
    own = found.found
    proves = run.method == METHODS[0]
    reached = [p.seconds for p in found.trace if own is not None and p.found_edp_uj_cycles == own.edp_uj_cycles]
    row: Row = {
        **job._asdict(),
        "edp_uj_cycles": own and own.edp_uj_cycles,
        "reached_s": round(reached[0], 1) if reached else None,
        "greedy_edp_uj_cycles": found.greedy.edp_uj_cycles,
        "bound_edp_uj_cycles": prove(found.best, run.budget_s).least.edp_uj_cycles if proves else None,
        "stopped": found.stopped,
    }
    return [row]


def _table(rows: Sequence[Row]) -> str:
    def number(row: Row, name: str) -> float:
        return float(str(row[name] or "nan"))

    cells: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
    for row in rows:
        devices = cells.setdefault((str(row["model"]), str(row["hardware"])), {})
        devices.setdefault(str(row["device"]), {})[str(row["method"])] = row
    told: list[Sequence[str]] = []
    for cell, devices in cells.items():
        # A bound holds of the cell, wherever it was proven.
        least = max(
            number(methods[METHODS[0]], "bound_edp_uj_cycles") for methods in devices.values() if METHODS[0] in methods
        )
        for device, methods in devices.items():
            if len(methods) < len(METHODS):
                continue  # a run that was interrupted
            over = [
                f"{number(row, 'edp_uj_cycles') / least - 1:.1%} ({number(row, 'reached_s'):.0f} s)"
                if row["edp_uj_cycles"]
                else "-"
                for row in (methods[m] for m in METHODS)
            ]
            greedy = number(methods[METHODS[0]], "greedy_edp_uj_cycles") / least - 1
            told.append((", ".join(cell), device, *over, f"{greedy:.1%}", f"{least:.4g}"))
    return markdown_table(("network, machine", "device", *METHODS, "greedy", "bound"), told)
