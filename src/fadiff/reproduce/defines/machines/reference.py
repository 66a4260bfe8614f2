"""DeFiNES' table of networks on its own machines, and the networks as it ran them."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from fadiff.errors import FadiffError
from fadiff.files import Strict
from fadiff.reproduce.defines.tables import SHIPPED, TableRow, read_objects, read_rows

TABLE, NETWORKS = "defines_machines.csv", "defines_machines_workloads.json"

MEMORIES: dict[str, dict[str, str]] = {
    "meta-proto-like": {
        "sram_1MB_A": "activation_l2", "sram_1MB_W": "weight_l2", "sram_64KB": "weight_l1", "sram_32KB": "input_l1",
        "rf_1B": "weight_register", "rf_2B": "output_register",
    },
    "meta-proto-like-df": {
        "sram_1MB_A": "activation_l2", "sram_1MB_W": "weight_l2", "sram_64KB": "activation_l1",
        "sram_32KB": "weight_l1", "rf_1B": "weight_register", "rf_2B": "output_register",
    },
    "tpu-like": {"sram_2MB": "activation_l2", "rf_128B": "weight_register", "rf_1KB": "output_register"},
    "tpu-like-df": {
        "sram_1MB_A": "activation_l2", "sram_1MB_W": "weight_l2", "sram_64KB_A": "activation_l1",
        "rf_64B": "weight_register", "rf_1KB": "output_register",
    },
    "edge-tpu-like": {
        "sram_2MB": "activation_l2", "sram_32KB": "weight_l1", "rf_1B": "weight_register", "rf_2B": "output_register",
    },
    "edge-tpu-like-df": {
        "sram_1MB_A": "activation_l2", "sram_1MB_W": "weight_l2", "sram_16KB_A": "activation_l1",
        "sram_16KB_W": "weight_l1", "rf_1B": "weight_register", "rf_2B": "output_register",
    },
    "tesla-npu-like-df": {
        "sram_896KB_A": "activation_l3", "sram_1MB_W": "weight_l3", "sram_64KB_A": "activation_l2",
        "sram_64KB_W": "weight_l2", "sram_1KB_I": "input_l1", "sram_1KB_W": "weight_l1",
        "rf_1B": "weight_register", "rf_4B": "output_register",
    },
}  # fmt: skip
"""By machine: what the catalog calls the memories of DeFiNES' description; its `dram` is DRAM everywhere."""


def _by_memory(text: object) -> object:
    """Energies written as ``dram=826214300;rf_1B=10473442``."""
    if not isinstance(text, str):
        return text
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {name: value for name, _, value in pairs}


ByMemory = Annotated[dict[str, float], BeforeValidator(_by_memory)]


SINGLE, WHOLE, TILED, BEST = "single_layer", "layer_by_layer", "depth_first", "best"
"""Kinds of schedules; the last is ours alone, and free in all that the others fix."""


class Row(TableRow):
    """One way to run a network on a machine, with the mappings of least energy; of DeFiNES' table, or of ours."""

    machine: str
    workload: str
    schedule: Literal["single_layer", "layer_by_layer", "depth_first", "best"]
    overlap_mode: Literal["none", "fully_cached", "h_cached", "recompute"]
    tile_ox: PositiveInt | None = None
    tile_oy: PositiveInt | None = None
    """Columns and rows of a tile of a stack's last map, as DeFiNES was told them."""
    groups: str = ""
    """Of ours: the groups of several layers, each with the tile of its last map."""
    stopped: Literal["", "done", "budget"] = ""
    """Of ours: whether the free search ended by itself."""
    energy_pj: float = Field(alias="energy_pJ", gt=0)
    cycles: float = Field(alias="latency_cycles", gt=0)
    input_bytes: float = Field(alias="dram_rd_I_B")
    weight_bytes: float = Field(alias="dram_rd_W_B")
    output_bytes: float = Field(alias="dram_wr_O_B")
    """What goes to and from DRAM."""
    mac_pj: float = Field(alias="energy_mac_pJ")
    memory_pj: ByMemory = Field(alias="energy_by_memory_pJ")

    @property
    def tile(self) -> tuple[int, int] | None:
        """Columns and rows of a tile; None where whole maps run."""
        return None if self.tile_ox is None or self.tile_oy is None else (self.tile_ox, self.tile_oy)

    def energy_by_node_pj(self) -> dict[str, float]:
        """Energy by where it is spent, under the names of our catalog."""
        names = MEMORIES[self.machine] | {"dram": "DRAM"}
        return {"mac": self.mac_pj} | {names.get(name, name): energy for name, energy in self.memory_pj.items()}


class NetworkInput(Strict):
    """The image that goes in."""

    id: Literal[-1]
    channels: PositiveInt
    rows: PositiveInt
    cols: PositiveInt


class Bits(Strict):
    """Widths of values."""

    W: PositiveInt
    I: PositiveInt  # noqa: E741  (the tensor's name)
    O: PositiveInt  # noqa: E741  (the tensor's name)
    psum: PositiveInt


class NetworkLayer(Strict):
    """A layer without padding, by its number; `sources` are the numbers of those that it reads."""

    id: NonNegativeInt
    kind: Literal["conv", "depthwise", "pool", "add"]
    P: PositiveInt
    Q: PositiveInt
    R: PositiveInt
    S: PositiveInt
    stride: PositiveInt
    G: PositiveInt = 1
    K: PositiveInt = 1
    C: PositiveInt = 1
    sources: list[int] = Field(alias="from", min_length=1)


class Network(Strict):
    """A network as DeFiNES ran it."""

    input: NetworkInput
    macs: PositiveInt
    """Without those of pooling."""
    weight_bytes: PositiveInt
    bits: Bits
    layers: list[NetworkLayer] = Field(min_length=1)


class Reference(NamedTuple):
    """What DeFiNES was run on, and what it said."""

    networks: dict[str, Network]
    rows: list[Row]


def read_reference(folder: Traversable = SHIPPED) -> Reference:
    """The table and its networks."""
    rows = read_rows(Row, (folder / TABLE).read_text(encoding="utf-8").splitlines(), TABLE)
    networks = read_objects(Network, folder, NETWORKS)
    for number, row in enumerate(rows, 1):
        where = f"{TABLE}: row {number}"
        if row.workload not in networks:
            raise FadiffError(f"{where}: {NETWORKS} has no network {row.workload!r}: add it")
        if row.machine not in MEMORIES:
            raise FadiffError(f"{where}: nobody says what the memories of {row.machine!r} are called here: add them")
        if unknown := sorted(row.memory_pj.keys() - MEMORIES[row.machine].keys() - {"dram"}):
            raise FadiffError(f"{where}: {row.machine} has no memory {unknown[0]!r}: correct its name")
    return Reference(networks, rows)
