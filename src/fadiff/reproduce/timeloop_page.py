"""The whole report of the comparison with Timeloop, as a page of documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.timeloop import Mask
from fadiff.reproduce.timeloop_agreement import (
    CYCLE_ROUNDING,
    ENERGY_ROUNDING_PJ,
    GROUPS,
    PAPER_ACCESS_ACCURACY,
    PAPER_RHO,
    PAPER_TAU,
    Validation,
)
from fadiff.reproduce.timeloop_costs import ONE_WORD, OURS, TIMELOOPS
from fadiff.reproduce.timeloop_differences import EXPLANATIONS


class Sheet(NamedTuple):
    """A table to print: the first column is text, the others are numbers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def report(validation: Validation, command: str) -> str:
    """The page; `command` makes it again."""
    method = (
        "Timeloop v3.0.3 evaluated random valid mappings of 14 kinds of operators on the two Gemminis; the model "
        "evaluates the same mappings. *Accuracy* of a count is 1 - |ours - theirs| / theirs, not below 0, and 1 where "
        "both are 0. *Access accuracy* is its mean over all rows and all 13 counts (one per level, tensor and "
        "direction), each of equal weight. *Timeloop's accounting* is the model with the tool's counting rules, "
        "energies and bandwidths put in; *ours* is the model as the project uses it, with the shipped hardware files."
    )
    blocks = ["# The model against Timeloop", "This page is made by", f"    {command}"]
    blocks += [wrapped(_summary(validation)), wrapped(method)]
    for sheet in (
        _accuracy_by_op(validation),
        _accuracy_by_count(validation),
        _rank_agreement(validation),
        _classes(validation),
        _differing_rows(validation),
    ):
        blocks += [f"## {sheet.title}", markdown_table(sheet.header, sheet.rows).rstrip()]
        blocks += [wrapped(sheet.note)] if sheet.note else []
    blocks += ["## Where the two differ, and why", *map(wrapped, _explanation(validation))]
    return "\n\n".join(blocks) + "\n"


def _summary(validation: Validation) -> str:
    latency, energy = validation.ranks[TIMELOOPS].values()
    return (
        f"{validation.rows:,} mappings of {validation.layers} pairs of a layer and a machine are compared; "
        f"{validation.left_out:,} more are left out, since their registers hold 64 weights and the model's hold one. "
        f"Access accuracy is {validation.access_accuracy:.4%} (the paper's: {PAPER_ACCESS_ACCURACY:.0%}); "
        f"{np.sum(validation.equal):,} rows are equal in every count and tile size. The model's capacity rule refuses "
        f"{validation.unfit} of the mappings. With Timeloop's accounting tau is {latency.tau:.4f} for latency and "
        f"{energy.tau:.4f} for energy, at least {latency.within_tau_min:.4f} and {energy.within_tau_min:.4f} within "
        f"every layer; with ours, {validation.ranks[OURS]['latency'].tau:.4f} and "
        f"{validation.ranks[OURS]['energy'].tau:.4f} (the paper's: {PAPER_TAU['latency']:.4f} and "
        f"{PAPER_TAU['energy']:.4f})."
    )


def _accuracy_by_op(validation: Validation) -> Sheet:
    def cell(group: str, of: Mask) -> str:
        mean, unequal = validation.group_accuracy(group, of)
        return f"{mean:.2%} ({unequal})" if unequal else "100%"

    def line(name: str, of: Mask) -> list[str]:
        return [name, f"{np.sum(of):,}", f"{np.sum(validation.equal[of]):,}", *(cell(group, of) for group in GROUPS)]

    ops = [line(str(op), validation.op_types == op) for op in np.unique(validation.op_types)]
    return Sheet(
        "Accuracy by operator type",
        ("operator", "rows", "all equal", *GROUPS),
        [*ops, line("all", np.ones(validation.rows, dtype=bool))],
        "Mean accuracy of the counts of each level and tensor, and of the tile sizes; in brackets, how many rows are "
        "not exactly equal. All equal: rows on which all 13 counts and 4 tile sizes are the same whole numbers.",
    )


def _accuracy_by_count(validation: Validation) -> Sheet:
    return Sheet(
        "Accuracy by count",
        ("Timeloop's column", "rows equal", "share equal", "mean accuracy", "lowest"),
        [
            (name, f"{np.sum(a == 1):,}", f"{np.mean(a == 1):.2%}", f"{np.mean(a):.4%}", f"{np.min(a):.2%}")
            for name, a in validation.accuracy.items()
        ],
    )


def _rank_agreement(validation: Validation) -> Sheet:
    return Sheet(
        "Rank agreement with Timeloop",
        ("accounting", "of", "tau", "rho", "mean tau", "min tau", "mean rho", "min rho", "mean error"),
        [
            *(
                (name, what, *(f"{number:.4f}" for number in found[:-1]), f"{found.mean_relative_error:.4%}")
                for name, quantities in validation.ranks.items()
                for what, found in quantities.items()
            ),
            *(
                ("the paper's model", what, f"{tau:.4f}", f"{PAPER_RHO[what]:.4f}", *["-"] * 5)
                for what, tau in PAPER_TAU.items()
            ),
        ],
        f"Kendall's tau-b and Spearman's rho over all rows, then their mean and minimum within the {validation.layers} "
        "sets of rows that share a layer and a machine; last, the mean relative difference.",
    )


def _classes(validation: Validation) -> Sheet:
    return Sheet(
        "Classes of disagreement, with Timeloop's accounting",
        ("class", "rows"),
        [
            ("counts and tile sizes exactly equal", f"{np.sum(validation.equal):,}"),
            *((f"{kind}: Timeloop fetches less input", str(n)) for kind, n in validation.class_sizes.items()),
            ("rounding: Timeloop's latency is up to one cycle longer", f"{validation.rounded_cycles:,}"),
            ("unexplained", str(len(validation.unexplained))),
        ],
        "The first three add up to all rows; rounding is counted apart from them, after the reuse of the classes is "
        "taken off the model's counts. Then all counts are equal on all rows, cycles agree to within "
        f"{CYCLE_ROUNDING:.0f} and energies to within {ENERGY_ROUNDING_PJ} pJ, the table's own rounding.",
    )


def _differing_rows(validation: Validation) -> Sheet:
    return Sheet(
        "Every row that differs: input words fetched into L2",
        ("row", "class", "model", "Timeloop", "model less class", "replayed"),
        [(d.row, d.kind, *(f"{words:,.0f}" for words in d[2:])) for d in validation.differences],
        "Replayed: every L3 iteration walked one by one, with a scratchpad that keeps the tile of the one before.",
    )


def _explanation(validation: Validation) -> list[str]:
    paragraphs = [
        "All counts and tile sizes of W and O, the array's reads of I and the tile sizes of I are equal on every one "
        f"of {validation.rows:,} rows; fills of I on all but {len(validation.differences)}. These fall into two "
        "classes, both of two L3 loops over one axis of the input. In both, the model's count less the reuse that the "
        "class predicts is Timeloop's, to the word.",
    ]
    for kind, text in EXPLANATIONS.items():
        found = [d for d in validation.differences if d.kind == kind]
        above = max((d.ours / d.timeloop - 1 for d in found), default=0.0)
        replayed = sum(d.replayed == d.ours for d in found)
        less = sum(d.replayed < d.timeloop for d in found)
        paragraphs.append(
            f"**{kind.capitalize()}** (rows: {len(found)}; fills of I up to {above:.1%} above Timeloop's). {text} "
            f"Walking every iteration one by one gives the model's count on {replayed} of {len(found)}, and fewer "
            f"words than either on {less}."
        )
    one_word, ours = validation.ranks[ONE_WORD], validation.ranks[OURS]
    return [
        *paragraphs,
        f"**Rounding** (rows: {validation.rounded_cycles:,}). The model's cycles are real numbers; Timeloop divides in "
        "floating point and rounds up to whole cycles, so its latency is from 0 to 1 cycle longer. Energies agree to "
        "the rounding of the table.",
        "**Accounting.** Three rules differ by intent, and the project keeps its own. *Spills*: a partial sum that "
        "leaves L1 is 32 bits wide and counts four words at L3; Timeloop counts one. *Drains*: an output on its way "
        "out is read from L1; Timeloop does not count that read. *Energies*: the project has one number per level, "
        "Timeloop one for reads and one for writes. Spills matter most here, because random mappings spill on "
        f"{validation.spilling / validation.rows:.0%} of the rows: counting them as four words takes tau from "
        f"{one_word['latency'].tau:.4f} to {ours['latency'].tau:.4f} for latency and from {one_word['energy'].tau:.4f} "
        f"to {ours['energy'].tau:.4f} for energy.",
    ]
