"""How much of a layer's time is charged to each of its terms: lemma 6 of docs/solver.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy.optimize import linprog  # pyright: ignore[reportUnknownVariableType]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.search.objective import Weights
    from fadiff.search.solver.charges import Charges
    from fadiff.search.solver.parts import Seen, Shares


def better_shares(charges: Charges, cuts: Sequence[Seen], weights: Weights, before: Shares) -> Shares:
    """Shares under which the cheapest of some chains costs most, halfway from those before if there are any."""
    wanted = _most(charges, cuts[0].terms) if len(cuts) == 1 else _between(charges, cuts, weights)
    mixed = {term: max(0.0, wanted.get(term, 0.0) + before.get(term, 0.0)) for term in charges.terms}
    # A solver keeps sums to its own tolerance; here they must not exceed 1.
    charged = {top: sum(share for term, share in mixed.items() if charges.on_top(term) is top) for top in (False, True)}
    return {term: share / charged[charges.on_top(term)] for term, share in mixed.items() if share > 0}


def _most(charges: Charges, terms: Shares) -> Shares:
    """Under which one chain costs most: all to what takes it longest, and of what comes on top likewise."""
    found: Shares = {}
    for on_top in (False, True):
        some = [term for term in charges.terms if charges.on_top(term) is on_top]
        if some:
            found[max(some, key=terms.__getitem__)] = 1.0
    return found


def _between(charges: Charges, cuts: Sequence[Seen], weights: Weights) -> Shares:
    r"""The same of several.

    .. math:: \max_\lambda \min_i\ a\, energy_i + b \sum_k \lambda_k term_{ik}
    """
    terms = charges.terms
    sums = [[0.0, *(float(charges.on_top(term) is on_top) for term in terms)] for on_top in (False, True)]
    sums = [row for row in sums if any(row)]
    solved: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
        [-1.0] + [0.0] * len(terms),
        A_ub=[[1.0, *(-weights[1] * cut.terms[term] for term in terms)] for cut in cuts],
        b_ub=[weights[0] * cut.energy_pj for cut in cuts],
        A_eq=sums,
        b_eq=[1.0] * len(sums),
        bounds=[(None, None)] + [(0.0, 1.0)] * len(terms),
    )
    if solved.x is None:
        return _most(charges, cuts[-1].terms)
    return dict(zip(terms, solved.x[1:].tolist(), strict=True))
