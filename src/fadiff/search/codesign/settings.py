"""How co-design searches, and who proposes machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from fadiff.errors import FadiffError, pip_install
from fadiff.search.codesign.samplers import SAMPLERS
from fadiff.search.driver import check_seed
from fadiff.search.gradient import DescentSettings

if TYPE_CHECKING:
    from fadiff.search.codesign.question import Question

PROPOSALS = {
    "descent": "mappings, fusion and machines descend together, then a climb",
    "climb": "random machines, then a climb",
    "uniform": "random machines",
    "filling": "random machines that fill the area",
    "tpe": "Optuna's tree-structured Parzen estimator",
    "bayesian": "Bayesian optimization with a Gaussian process, by BoTorch",
    "derived": "DOSA's way: without fusion, the machine follows from the mappings that descend",
}
"""Who may propose machines."""
ALIASES = {"random": "climb"}
"""Former names."""


@dataclass(frozen=True)
class CodesignSettings:
    """How co-design searches."""

    budget_seconds: float = 300.0
    seed: int = 0
    proposals: str = "descent"
    """Who proposes machines, one of PROPOSALS."""
    descent: DescentSettings = DescentSettings(restarts=64)
    """How machines and mappings descend, where they do."""
    candidates: int = 5
    """Distinct machines that are scored after the descent."""
    method: str = "exact"
    """How schedules are searched on a given machine."""
    exact_factors: bool = False
    """Only tiles that divide their dims."""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.proposals not in PROPOSALS:
            close = get_close_matches(self.proposals, PROPOSALS, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise FadiffError(f"proposals are {self.proposals!r}{hint}: use one of {', '.join(PROPOSALS)}")
        missing = SAMPLERS[self.proposals].missing if self.proposals in SAMPLERS else None
        if missing is not None:
            raise FadiffError(f"proposals {self.proposals!r} need {missing}: run {pip_install('baselines')}")

    def check(self, question: Question) -> None:
        """Raise where such a search cannot answer a question."""
        if self.derives and len(question.workloads) > 1:
            raise FadiffError("a machine is derived from the mappings of one network: give one, or use other proposals")

    @property
    def derives(self) -> bool:
        """Whether machines follow from mappings, without fusion."""
        return self.proposals == "derived"

    @property
    def climbs(self) -> bool:
        """Whether neighbours of the best machines are tried."""
        return self.proposals in ("descent", "climb")

    @property
    def descends(self) -> bool:
        """Whether mappings descend."""
        return self.proposals in ("descent", "derived")

    @property
    def descending(self) -> DescentSettings:
        """How they do."""
        return replace(self.descent, fuse=self.descent.fuse and not self.derives)

    @property
    def shared(self) -> dict[str, object]:
        """What two searches of one question must have in common to share rows."""
        return {"proposals": self.proposals, "exact_factors": self.exact_factors}
