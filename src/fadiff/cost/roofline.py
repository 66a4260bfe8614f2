"""Latency and energy of layers from their traffic."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.namespace import namespace

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.arrays import HardwareArrays, LayerArrays, MappingArrays
    from fadiff.cost.traffic import Traffic

TERMS = ("compute", "L1", "L2", "L3")
"""The roofline terms, in the order of :class:`Cycles`."""


class Cycles(NamedTuple):
    """Cycles each resource would need on its own, and those the layer takes. Shapes ``[..., layers]``."""

    compute: Array
    l1: Array
    l2: Array
    l3: Array
    total: Array


class EnergyPj(NamedTuple):
    """Energy by part. Shapes ``[..., layers]``."""

    mac: Array
    l0: Array
    l1: Array
    l2: Array
    l3: Array
    total: Array


def cycles(layers: LayerArrays, mapping: MappingArrays, traffic: Traffic, hardware: HardwareArrays) -> Cycles:
    """Roofline: cycles = max(MACs/(s_rows*s_cols), accesses(Lm)/words_per_cycle(Lm)).

    L1 serves the columns in use (an add layer uses all). Where L3 transfers do not overlap with work, their term is
    added to the maximum of the others.
    """
    xp = namespace(*traffic, *mapping, *hardware)
    s = mapping.spatial
    s_rows, s_cols = s[3] * s[6] * s[7], s[2] * s[0]
    columns = xp.where(layers.is_mac, s_cols, hardware.cols)
    compute = traffic.macs / (s_rows * s_cols)
    l1 = traffic.l1 / (hardware.l1_words_per_cycle_per_column * columns)
    l2 = traffic.l2 / hardware.l2_words_per_cycle
    l3 = traffic.l3 / hardware.l3_words_per_cycle
    on_chip = reduce(xp.maximum, [compute, l1, l2])
    total = xp.where(hardware.serial_l3 > 0, on_chip + l3, xp.maximum(on_chip, l3))
    return Cycles(compute, l1, l2, l3, total)


def energy_pj(traffic: Traffic, hardware: HardwareArrays) -> EnergyPj:
    """energy = MACs*pJ_mac + sum over levels of accesses*pJ."""
    mac = traffic.macs * hardware.mac_pj
    l0, l1 = traffic.l0 * hardware.l0_pj, traffic.l1 * hardware.l1_pj
    l2, l3 = traffic.l2 * hardware.l2_pj, traffic.l3 * hardware.l3_pj
    return EnergyPj(mac, l0, l1, l2, l3, mac + l0 + l1 + l2 + l3)
