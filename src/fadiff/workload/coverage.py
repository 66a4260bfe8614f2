"""What of a network its layers do not stand for, and what was assumed about the rest."""

from dataclasses import dataclass

MOST_SHOWN = 2
"""Kinds of operators, and notes, that a summary has room for."""


@dataclass(frozen=True, slots=True)
class NotModelled:
    """An operator that no layer stands for; `type` is what its framework calls it, and `reason` completes "because".

    `macs` estimates its multiply-accumulates; None where nobody can tell. Words are elements of tensors: those of its
    parameters, of what it reads beside them, and of what it makes.
    """

    name: str
    type: str
    reason: str
    macs: int | None
    weight_words: int = 0
    input_words: int = 0
    output_words: int = 0


@dataclass(frozen=True)
class Coverage:
    """How much of a network its layers stand for.

    >>> ffts = tuple(NotModelled(name, "DFT", "it is no matrix product", 10) for name in ("one", "other"))
    >>> Coverage(0.25, ffts, ()).told
    '25.0% of the MACs: 2 x DFT because it is no matrix product'
    """

    not_modelled_share: float
    """Of all multiply-accumulates that somebody can tell."""
    not_modelled: tuple[NotModelled, ...]
    notes: tuple[str, ...]
    """What was assumed, or left out without a change of counts: a sentence each."""

    @property
    def gaps(self) -> tuple[NotModelled, ...]:
        """Operators that are not modelled and multiply, or may do so."""
        return tuple(row for row in self.not_modelled if row.macs != 0)

    @property
    def told(self) -> str:
        """What is not modelled, and why, in a line or two."""
        if not self.not_modelled:
            return "nothing"
        kinds: dict[tuple[str, str], list[NotModelled]] = {}
        for row in sorted(self.not_modelled, key=lambda row: row.macs or 0, reverse=True):
            kinds.setdefault((row.type, row.reason), []).append(row)
        parts = [f"{len(rows)} x {kind} because {reason}" for (kind, reason), rows in kinds.items()]
        if len(parts) > MOST_SHOWN:
            parts[MOST_SHOWN:] = [_counted(len(parts) - MOST_SHOWN, "more kind")]
        return f"{self._how_much}: {'; '.join(parts)}"

    @property
    def _how_much(self) -> str:
        known = f"{self.not_modelled_share:.1%} of the MACs"
        unknown = sum(row.macs is None for row in self.not_modelled)
        if not unknown:
            return known
        nobody = f"{_counted(unknown, 'operator')} whose MACs nobody knows"
        return f"{known}, and {nobody}" if self.not_modelled_share else nobody

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Lines for a summary, each with its title; none where all of the network is there."""
        notes = list(self.notes[:MOST_SHOWN])
        if len(self.notes) > MOST_SHOWN:
            notes[-1] += f" (and {_counted(len(self.notes) - MOST_SHOWN, 'more note')})"
        missing = [("not modelled", self.told)] if self.not_modelled else []
        return [*missing, *(("note", note) for note in notes)]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"
