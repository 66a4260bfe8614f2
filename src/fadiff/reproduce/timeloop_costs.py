"""Latency and energy of Timeloop's mappings by the model: with Timeloop's accounting, and with our own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fadiff.cost.arrays import HardwareArrays, pack_hardware
from fadiff.cost.roofline import cycles, energy_pj
from fadiff.hardware import load_hardware
from fadiff.reproduce.timeloop import Energies, Floats, Reference, as_array, as_floats
from fadiff.reproduce.timeloop_counts import Batch, reads_and_writes

MACHINES = {"LARGE": "gemmini-large", "SMALL": "gemmini-small"}
"""The table's machines, by the names of the hardware files that describe them."""
L3_WORDS_PER_CYCLE, L2_WORDS_PER_CYCLE_PER_COLUMN, L1_WORDS_PER_CYCLE_PER_COLUMN = 8.0, 2.0, 2.0
"""Bandwidths Timeloop was run with; L1 serves the columns in use, L2 all of them."""

TIMELOOPS, ONE_WORD, OURS = "Timeloop's", "ours, a spill is one word", "ours"
"""Accountings: Timeloop's rules, energies and bandwidths put into the model; the project's own but for one; its own."""
QUANTITIES = ("latency", "energy")


class Cost(NamedTuple):
    """What an accounting says of every row, ``[rows]``, in the order of `QUANTITIES`."""

    cycles: Floats
    energy_pj: Floats


def accountings(batch: Batch, energies: Energies) -> dict[str, Cost]:
    """The cost of every row by each accounting."""
    hardware = shipped_hardware(batch.reference)
    return {
        TIMELOOPS: timeloop_cost(batch, energies),
        ONE_WORD: own_cost(batch, hardware._replace(spill_words=as_array(1.0))),
        OURS: own_cost(batch, hardware),
    }


def timeloop_cost(batch: Batch, energies: Energies) -> Cost:
    """The model's roofline and energy with Timeloop's rules, energies and bandwidths put in."""
    reading, writing = timeloop_hardware(batch.reference, energies)
    read, written = reads_and_writes(batch)
    undrained = batch.traffic._replace(l1_drain=batch.traffic.macs * 0)
    return Cost(
        as_floats(cycles(batch.layers, batch.mapping, undrained, reading).total),
        as_floats(energy_pj(read, reading).total + energy_pj(written, writing).total),
    )


def own_cost(batch: Batch, hardware: HardwareArrays) -> Cost:
    """The model's roofline and energy as the project uses them."""
    traffic = batch.traffic._replace(l3_spill=batch.traffic.l3_spill * hardware.spill_words)
    return Cost(
        as_floats(cycles(batch.layers, batch.mapping, traffic, hardware).total),
        as_floats(energy_pj(traffic, hardware).total),
    )


def shipped_hardware(reference: Reference) -> HardwareArrays:
    """The hardware file of every row's machine, numbers ``[rows]``."""
    configs = list(MACHINES)
    packed = [pack_hardware(load_hardware(MACHINES[config])) for config in configs]
    machine = np.array([configs.index(config) for config in reference.text("config")])
    return HardwareArrays(*(as_array(np.stack(field)[machine]) for field in zip(*packed, strict=True)))


def timeloop_hardware(reference: Reference, energies: Energies) -> tuple[HardwareArrays, HardwareArrays]:
    """Timeloop's machine with its energies of a read, and with those of a write (fills and updates)."""

    def pj(key: str) -> Floats:
        return np.array([energies[config][key] for config in reference.text("config")])

    one = np.ones(len(reference))
    machine = shipped_hardware(reference)._replace(
        l1_words_per_cycle_per_column=as_array(L1_WORDS_PER_CYCLE_PER_COLUMN * one),
        l2_words_per_cycle=as_array(L2_WORDS_PER_CYCLE_PER_COLUMN * reference.numbers("pe_dim")),
        l3_words_per_cycle=as_array(L3_WORDS_PER_CYCLE * one),
        mac_pj=as_array(pj("MAC")),
        l0_pj=as_array(pj("L0")),
        l3_pj=as_array(pj("L3")),
        spill_words=as_array(one),
        serial_l3=as_array(0 * one),
    )
    reading = machine._replace(l1_pj=as_array(pj("L1_read")), l2_pj=as_array(pj("L2_read")))
    writing = machine._replace(l1_pj=as_array(pj("L1_write")), l2_pj=as_array(pj("L2_write")))
    return reading, writing
