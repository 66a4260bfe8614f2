"""The trial: networks as people bring them, each read as it comes and scheduled on three kinds of machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import measure
from fadiff.reproduce.trial.networks import NETWORKS
from fadiff.search.optimize import optimize
from fadiff.search.solver.network_bound import prove
from fadiff.sweeps.rows import Row
from fadiff.workload.importers.torch_front_end.program import require_torch

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk
    from fadiff.workload import Workload

MACHINES = {
    "gemmini-large": "A systolic array of 32x32, which fuses in its scratchpad.",
    "eyeriss": "168 PEs with scratchpads of their own, row stationary, which fuse in the global buffer.",
    "edge-tpu-like": "Lanes over channels and pixels, which fuse in a memory of 2 MB for activations.",
}
SEARCH_S, QUICK_SEARCH_S = 20.0, 8.0
PROOF_S, QUICK_PROOF_S = 5.0, 2.0
QUICK_NETWORKS = ("mobilenet-v3", "bert-small-int8", "ppocr-v4-det", "silero-vad", "llama-1b-decode", "mamba-130m")


class Trial(NamedTuple):
    """One network on all machines; the fields name the columns that tell trials apart."""

    model: str
    search_s: float
    proof_s: float

    def __str__(self) -> str:
        return self.model


def reproduce(desk: Desk) -> str:
    """Read every network, search and prove on every machine, and tell all of it."""
    seconds = (QUICK_SEARCH_S, QUICK_PROOF_S) if desk.quick else (SEARCH_S, PROOF_S)
    trials = [Trial(name, *seconds) for name in (QUICK_NETWORKS if desk.quick else NETWORKS)]
    rows = measure(desk, trials, _rows, Trial._fields)
    tables = "\n".join(f"### On {name}\n\n{what}\n\n{_cells(rows, name)}" for name, what in MACHINES.items())
    return f"""\
## Networks as people bring them

```
{desk.command()}
```

{len(trials)} networks: configurations of Hugging Face models, modules of PyTorch where transformers has no such model,
and ONNX files as packages ship them, or as ONNX Runtime quantizes them. *Modelled* is the share of
multiply-accumulates that layers stand for; *read* is how long the import took, PyTorch being loaded. Many equal blocks
in a row [are folded](import.md#loops-and-repeated-blocks) into one that repeats. Each search had {seconds[0]:g} seconds
and each proof {seconds[1]:g}, compilation included.

{_networks(rows)}
*PE use* is the share of the multipliers' cycles in which they multiply. *Over unfused* is the EDP over that of the best
schedule without fusion that the same search found: what fusion leaves of it. *Gap* is by how much the EDP is above the
best there is, at most.

{tables}"""


def _rows(trial: Trial) -> list[Row]:
    """Read a network and search it on every machine. Interrupted, it is no result."""
    require_torch()
    import_module("torch")  # loading it is no part of reading a network
    source = NETWORKS[trial.model]
    began = time.monotonic()
    imported = source.load(trial.model)
    read_s = time.monotonic() - began
    network = imported.workload
    told: Row = {
        **trial._asdict(),
        "source": source.told,
        "layers": len(network.layers),
        "macs": network.macs,
        "parameters": imported.report.parameters,
        "modelled": 1 - network.coverage.not_modelled_share,
        "read_s": round(read_s, 1),
    }
    return [{**told, **_cell(network, machine, trial)} for machine in MACHINES]


def _cell(network: Workload, machine: str, trial: Trial) -> Row:
    found = optimize(network, machine, budget_seconds=trial.search_s)
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    best = found.best
    return {
        "hardware": machine,
        "edp_uj_cycles": best.edp_uj_cycles,
        "utilization": best.utilization,
        "unfused_edp_uj_cycles": found.unfused.edp_uj_cycles,
        "edges_fused": len(best.schedule.fused_edges),
        "gap": prove(best, trial.proof_s).gap(best),
        "seconds": round(found.seconds, 1),
        "stopped": found.stopped,
    }


def _number(row: Row, name: str) -> float:
    return float(str(row[name]))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _networks(rows: Sequence[Row]) -> str:
    first = {str(row["model"]): row for row in reversed(rows)}
    return markdown_table(
        ("network", "comes from", "layers", "GMACs", "million parameters", "modelled", "read"),
        [
            (
                name,
                row["source"],
                row["layers"],
                _short(_number(row, "macs") / 1e9),
                _short(_number(row, "parameters") / 1e6),
                f"{_number(row, 'modelled'):.2%}",
                f"{_number(row, 'read_s'):.1f} s",
            )
            for name, row in reversed(first.items())
        ],
    )


def _cells(rows: Sequence[Row], machine: str) -> str:
    return markdown_table(
        ("network", "EDP", "PE use", "edges fused", "over unfused", "gap", "search"),
        [
            (
                row["model"],
                f"{_number(row, 'edp_uj_cycles'):.4g}",
                f"{_number(row, 'utilization'):.1%}",
                row["edges_fused"],
                f"{_number(row, 'edp_uj_cycles') / _number(row, 'unfused_edp_uj_cycles'):.3f}",
                f"{_number(row, 'gap'):.1%}",
                f"{_number(row, 'seconds'):.0f} s",
            )
            for row in rows
            if row["hardware"] == machine
        ],
    )
