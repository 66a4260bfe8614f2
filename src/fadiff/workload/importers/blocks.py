"""Equal blocks of an imported model, folded into one that repeats, with the account of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fadiff.workload.graph import Workload
from fadiff.workload.importers.report import ImportedModel
from fadiff.workload.repeats import Run, find_runs, folded, handed_over

FEWEST, FEWEST_OF_IMAGES = 16, 32
"""Blocks in a row from which on they are folded; more where images go from one to the next, which gain by fusion.

docs/import.md has the measurement.
"""


def fold_blocks(imported: ImportedModel) -> ImportedModel:
    """The same model with a block in the place of many equal ones in a row; others are left as they are."""
    whole, report = imported.workload, imported.report
    runs = [
        run
        for run in find_runs(whole, FEWEST)
        if run.count >= FEWEST_OF_IMAGES
        or not any(min(whole.layers[number].stored) > 1 for number in handed_over(whole, run))
    ]
    if not runs:
        return imported
    workload = replace(folded(whole, runs), notes=(*whole.notes, *_notes(whole, runs)))
    kept = tuple(row for row in report.folded if row.layer is None or row.layer in workload)
    return ImportedModel(workload, replace(report, edges=workload.edges, folded=kept, notes=workload.notes))


def _notes(whole: Workload, runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        names = [whole.layers[number].name for number in (run.kept[0], run.kept[-1], run.stop - 1)]
        block = names[0] if run.period == 1 else f"{names[0]} to {names[1]}"
        yield (
            f"{run.count} equal blocks, up to {names[2]}, are folded into one that repeats ({block}); tensors between "
            "them are not fused, with --unfold they can be"
        )
