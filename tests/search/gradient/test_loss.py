"""The loss: of a decided schedule it is the exact cost; penalties and objectives weigh as told."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule.rules import violations
from fadiff.search.gradient import DescentSettings
from fadiff.search.gradient.loss import Seen, apart, choose_orders, loss
from fadiff.search.gradient.penalties import PENALTIES
from fadiff.search.gradient.settings import Anneal, anneal
from fadiff.search.objective import LATENCY
from fadiff.search.space import map_space
from search.gradient.toys import ROOMY, looked, residual
from search.networks import at_dram, group


@pytest.mark.parametrize("one", [group("a b s c", "P2"), group("a")], ids=["fused", "alone"])
def test_a_decided_schedule_costs_what_the_evaluator_says(one):
    schedule, orders = at_dram(residual(), ROOMY, one), tuple(choices[0] for choices in map_space(ROOMY).orders)
    schedule = replace(schedule, mappings={n: replace(m, orders=orders) for n, m in schedule.mappings.items()})
    assert violations(schedule) == []
    found, exact = looked(schedule)[0], evaluate(schedule)
    assert found.energy_pj.tolist() == pytest.approx([exact.energy_pj], rel=1e-5)
    assert found.cycles.tolist() == pytest.approx([exact.cycles], rel=1e-5)


def test_the_loss_is_the_log_objective_plus_lambda_times_weighted_penalties():
    penalties = np.arange(1.0, 1 + len(PENALTIES))[:, None] * [1, 0]
    seen = Seen(jnp.array([2e6, 3e6]), jnp.array([5.0, 7.0]), jnp.asarray(penalties))
    settings = DescentSettings().weighing(align=0.5)
    now, broken = Anneal(tau=1.0, noise=0.0, weight=10.0), 10 * float(np.dot(settings.weights, penalties[:, 0]))
    assert loss(seen, settings, now).tolist() == pytest.approx([np.log(10) + broken, np.log(21)], rel=1e-5)
    plain = replace(settings, log_objective=False)
    assert loss(seen, plain, now).tolist() == pytest.approx([10 + broken, 21], rel=1e-5)
    assert loss(seen, replace(plain, objective=LATENCY), now)[1] == pytest.approx(7, rel=1e-3)


@pytest.mark.parametrize("how", ["best", "drawn"])
def test_every_layer_takes_its_cheapest_order_when_it_is_cold(how):
    price = jnp.asarray(np.random.default_rng(0).uniform(1, 9, (4, 2, 3)))
    orders, tag = jnp.arange(24).reshape(4, 1, 2, 3), ("count", 0)
    gumbel = jnp.asarray(np.random.default_rng(1).gumbel(size=price.shape))
    chosen, known = choose_orders(DescentSettings(orders=how), orders, price, {tag: 10 * price}, gumbel, 1e-4)
    best = np.asarray(price).argmin(axis=0)
    assert np.array_equal(chosen[0], np.take_along_axis(np.asarray(orders)[:, 0], best[None], axis=0)[0])
    np.testing.assert_allclose(known[tag], 10 * np.asarray(price).min(axis=0))


def test_numbers_go_from_their_start_to_their_end_and_stay():
    settings = DescentSettings(steps=11)
    at = [anneal(settings, step) for step in (0, 5, 10, 11)]
    assert [float(now.tau) for now in at] == pytest.approx([2, (2 * 0.04) ** 0.5, 0.04, 0.04])
    assert [float(now.noise) for now in at] == pytest.approx([0.3, 0.15, 0, 0])
    assert [float(now.weight) for now in at] == pytest.approx([0.01, (0.01 * 10) ** 0.5, 10, 10])


def test_what_is_computed_apart_is_the_same():
    values = jnp.arange(3.0)
    assert apart(values[1] > 0, lambda x: (x + 1, {"twice": 2 * x}), values)[1]["twice"].tolist() == [0, 2, 4]
