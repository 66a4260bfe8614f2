"""The executor against the model, word for word: 2,000 random schedules of random machines, nine of ten fused."""

import pytest

from fadiff import verify
from oracle.schedules import draw

FUSED = ("chain", "residual", "concatenation", "weight_port", "channel_loop")
SEEDS = range(30_000, 30_400)
"""Any other range will do: every schedule that can be drawn must hold up."""


@pytest.mark.parametrize("tens", SEEDS[::10])
@pytest.mark.parametrize("kind", FUSED)
def test_what_runs_is_what_the_model_says(kind, tens):
    plans = {seed: draw(kind, seed) for seed in range(tens, tens + 10)}
    assert sum(bool(plan.fused_edges) for plan in plans.values()) > 5
    assert [seed for seed, plan in plans.items() if not verify(plan).holds] == []
