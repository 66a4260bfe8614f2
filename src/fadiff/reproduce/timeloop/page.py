"""The whole report of the comparison with Timeloop, as a page of documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import SupportsInt

import numpy as np

from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.timeloop.compare import (
    CYCLE_ROUNDING,
    DENIED,
    ENERGY_ROUNDING_PJ,
    EXPLANATIONS,
    IMAGINED,
    OWN,
    SHIPPED,
    TIMELOOPS,
    Comparison,
)
from fadiff.reproduce.timeloop.ranks import (
    PAPER_ACCESS_ACCURACY,
    PAPER_RHO,
    PAPER_TAU,
    mean_tau_within_layers,
    ranks,
)
from fadiff.reproduce.timeloop.reference import Floats

Comparisons = Sequence[Comparison]
KINDS = {
    "W reads": ("_W_reads",),
    "W fills": ("_W_fills",),
    "I reads": ("_I_reads",),
    "I fills": ("_I_fills",),
    "O reads": ("_O_reads",),
    "O fills": ("_O_fills",),
    "O updates": ("_O_updates",),
    "tiles": ("_tile",),
    "steps, lanes": ("cycles_compute", "used_macs"),
}
"""Kinds of numbers that are compared, by the endings of their columns."""


def total(comparisons: Comparisons, number: Callable[[Comparison], SupportsInt]) -> int:
    """A number of every machine, added up."""
    return sum(int(number(comparison)) for comparison in comparisons)


def rows_of(comparisons: Comparisons) -> int:
    """Rows compared."""
    return total(comparisons, lambda c: len(c.reference))


def counts_of(comparisons: Comparisons) -> Floats:
    """Accuracy of every access count of every row."""
    return np.concatenate([c.counts for c in comparisons])


def class_rows(comparisons: Comparisons, kind: str) -> int:
    """Rows with a count that differs in a class."""
    return len({d.row for c in comparisons for d in c.differences if d.kind == kind})


def report(comparisons: Comparisons, command: str) -> str:
    """The page; `command` makes it again."""
    method = (
        "Timeloop v3.0.3 evaluated random valid mappings: most of them of layers of real size, some of small ones with "
        "every iteration run, some with factors that multiply to more than a dim, so that the last iteration is cut "
        "short. The model evaluates the same mappings of the same machines, with the same energies and rates. "
        "*Accuracy* of a count is 1 - |ours - theirs| / theirs, not below 0, and 1 where both are 0. *Timeloop's "
        "rules* are two rules for sums, put into the model's counts before anything is compared (below)."
    )
    blocks = ["# The model against Timeloop", "This page is made by", f"    {command}"]
    blocks += [wrapped(_summary(comparisons)), wrapped(method)]
    blocks += [*_by_machine(comparisons), *_by_kind(comparisons), *_beside_the_paper(comparisons)]
    blocks += [*_classes(comparisons), *_explanation(comparisons), *_differences(comparisons)]
    return "\n\n".join(blocks) + "\n"


def _section(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str) -> list[str]:
    """A table with a note; its first column is text, the others are numbers."""
    return [f"## {title}", markdown_table(header, rows).rstrip(), wrapped(note)]


def _summary(comparisons: Comparisons) -> str:
    counts, every = counts_of(comparisons), [ranks([c], TIMELOOPS) for c in comparisons]
    latency, energy = (min(found[what].tau for found in every) for what in PAPER_TAU)
    sizes = total(comparisons, lambda c: np.sum(c.accuracy_of(*KINDS["tiles"], *KINDS["steps, lanes"]) != 1))
    return (
        f"{rows_of(comparisons):,} mappings on {len(comparisons)} machines are compared. {np.mean(counts == 1):.3%} of "
        f"{counts.size:,} access counts are exactly equal; access accuracy is {np.mean(counts):.4%} (the paper's: "
        f"{PAPER_ACCESS_ACCURACY:.0%}). Of tiles, steps and lanes {sizes} differ, and the mappings, which Timeloop "
        f"holds for valid, break {total(comparisons, lambda c: c.broken_rules)} rules of the model. On every machine "
        f"tau is at least {latency:.4f} for latency and {energy:.4f} for energy. "
        f"{total(comparisons, lambda c: len(c.unexplained))} rows differ for a reason that is not named below."
    )


def _by_machine(comparisons: Comparisons) -> list[str]:
    def line(name: str, some: Comparisons) -> list[str]:
        counts = counts_of(some)
        taus = [found.tau for accounting in (TIMELOOPS, OWN) for found in ranks(some, accounting).values()]
        shares = f"{np.mean(counts == 1):.3%}", f"{np.mean(counts):.4%}"
        return [name, f"{rows_of(some):,}", f"{counts.size:,}", *shares, *(f"{tau:.4f}" for tau in taus)]

    return _section(
        "Agreement by machine",
        ("machine", "rows", "counts", "equal", "accuracy", "tau latency", "tau energy", "own latency", "own energy"),
        [*(line(c.name, [c]) for c in comparisons), line("all", comparisons)],
        "Kendall's tau-b over the rows of a machine, with Timeloop's rules for sums and, last, with the model's own. "
        "Rows with cut ends have no latency: Timeloop's is wrong there. The registers of a machine in `-r64` hold 64 "
        "weights.",
    )


def _by_kind(comparisons: Comparisons) -> list[str]:
    def line(name: str, some: Comparisons) -> list[str]:
        found = [np.concatenate([c.accuracy_of(*ends) for c in some]) for ends in KINDS.values()]
        return [name, *(f"{np.sum(values != 1):,} of {values.size:,}" for values in found)]

    return _section(
        "Numbers that differ, by kind",
        ("machine", *KINDS),
        [*(line(c.name, [c]) for c in comparisons), line("all", comparisons)],
        "Reads, fills (from further out) and updates (sums from further in) of all memories; the tiles that one "
        "instance of each holds; steps of computing, and lanes in use.",
    )


def _beside_the_paper(comparisons: Comparisons) -> list[str]:
    gemminis = [c for c in comparisons if SHIPPED in c.costs]
    paper = [("the paper's model", of, f"{PAPER_TAU[of]:.4f}", f"{PAPER_RHO[of]:.4f}", "-", "-") for of in PAPER_TAU]
    ours: list[tuple[str, ...]] = []
    for by in (TIMELOOPS, OWN, SHIPPED):
        within = mean_tau_within_layers(gemminis, by)
        for of, found in ranks(gemminis, by).items():
            numbers = f"{found.tau:.4f}", f"{found.rho:.4f}", f"{within[of]:.4f}", f"{found.mean_difference:.4%}"
            ours.append((by, of, *numbers))
    return _section(
        "The two Gemminis, beside the paper",
        ("accounting", "of", "tau", "rho", "tau within layers", "mean difference"),
        [*paper, *ours],
        f"Over the {rows_of(gemminis):,} rows of both Gemminis together. With the shipped hardware files a spilled "
        "sum is 32 bits wide, four words of DRAM where Timeloop counts one, and energies are the project's own. The "
        "paper names neither its mappings nor its definition of accuracy, so its lines are a measurement of the same "
        "kind and not the same measurement.",
    )


def _classes(comparisons: Comparisons) -> list[str]:
    rows = {
        "every count, tile, step and lane exactly equal": total(comparisons, lambda c: np.sum(c.equal)),
        **{f"{kind}: Timeloop fetches less input": class_rows(comparisons, kind) for kind in EXPLANATIONS},
        "unexplained": total(comparisons, lambda c: len(c.unexplained)),
        "rule put in: sums that leave are not read": rows_of(comparisons),
        "rule put in: every lane reloads old sums": total(comparisons, lambda c: c.reloading),
        "rounding: Timeloop's latency is one cycle longer": total(comparisons, lambda c: c.rounded),
    }
    return _section(
        "Classes of disagreement",
        ("class", "rows"),
        [(name, f"{number:,}") for name, number in rows.items()],
        "The first four add up to all rows. With fetches of input as the two classes predict them, all counts are "
        f"equal on all rows, cycles of every memory agree to within {CYCLE_ROUNDING:.0f} and energies to within "
        f"{ENERGY_ROUNDING_PJ} pJ, the tables' own rounding.",
    )


def _explanation(comparisons: Comparisons) -> list[str]:
    general = [c for c in comparisons if np.any(c.reference.flagged)]
    flagged = total(general, lambda c: np.sum(c.reference.flagged))
    differing = total(general, lambda c: np.sum(~c.equal & c.reference.flagged))
    others = total(general, lambda c: np.sum(~c.equal & ~c.reference.flagged))
    paragraphs = [
        "Only counts of input ever differ. Why is found by walking: a memory that holds one tile fetches of the next "
        "what the last has not, and forgets the last where the step from tile to tile changes. Walked as Timeloop "
        f"walks, this gives its count of input on all {total(comparisons, lambda c: c.walked):,} fills above which no "
        f"loop is cut, without a formula of the model. The general table flags {flagged} rows where counts of input "
        f"are off the rules of tiles: the model differs on {differing} of them, and on {others} of its other rows.",
    ]
    for kind, text in EXPLANATIONS.items():
        found = [d for c in comparisons for d in c.differences if d.kind == kind]
        above = max((d.model / d.timeloop - 1 for d in found), default=0.0)
        told = f"rows: {class_rows(comparisons, kind)}; fills of I up to {above:.0%} above Timeloop's"
        paragraphs.append(f"**{kind.capitalize()}** ({told}). {text}")
    paragraphs += [
        "**Rules for sums.** Timeloop does not count the read of a sum on its way out of a memory; the model does. And "
        "where lanes over C, R or S lie above a keeper of O, each holding a part of a sum, Timeloop reloads an old sum "
        "into every lane, while the model has one lane go on with it and the others start fresh. Both rules are put "
        "into the model's counts, from its own flows, before they are compared. By its own rules the memories of sums "
        "are busier, or less busy below such lanes: the last columns of the first table.",
        f"**Rounding** (rows: {total(comparisons, lambda c: c.rounded):,}). Timeloop divides in floating point and "
        "rounds up to whole cycles, so that its latency may be one cycle longer than the exact one.",
    ]
    return ["## Where the two differ, and why", *map(wrapped, paragraphs)]


def _differences(comparisons: Comparisons) -> list[str]:
    found = [d for c in comparisons for d in c.differences]
    return _section(
        "Every fetch of input that differs",
        ("row", "machine", "into", "class", "model", "Timeloop", "predicted", "every iteration"),
        [(d.row, d.machine, d.memory, d.kind, *(f"{words:,.0f}" for words in d[3:])) for d in found],
        f"Predicted: the walk in the row's mode. {IMAGINED.capitalize()}: walking every iteration gives the model's "
        f"count. {DENIED.capitalize()}: it gives Timeloop's.",
    )
