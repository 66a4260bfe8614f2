"""The joint descent over schedules and machines, on a machine of three nodes."""

from functools import partial
from math import inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fadiff.hardware import machine_area
from fadiff.search import gradient
from fadiff.search.codesign import Question
from fadiff.search.codesign.descent import (
    Candidate,
    Prices,
    area_loss,
    budgets,
    descend,
    drawn_logs,
    filling,
    snapped,
)
from fadiff.search.gradient.descent import draw_noise, pull
from fadiff.search.gradient.settings import anneal
from search.codesign.tiny import FLAT, FREE, PRODUCT, TOY

AREA_MM2 = 0.05
SETTINGS = gradient.DescentSettings(restarts=8, steps=40)


def test_random_machines_fill_the_area_or_are_at_an_end_of_the_space():
    limits = np.array([0.02, 0.1, 0.3, 5.0, 50.0])
    logs = filling(FREE, drawn_logs(FREE, np.random.default_rng(0), len(limits)), limits)
    areas = np.asarray(FREE.area_mm2(logs))
    assert areas[:3].tolist() == pytest.approx([0.02, 0.1, 0.3], rel=0.01)
    assert areas[3:].tolist() == pytest.approx([machine_area(FREE.at(FREE.largest)).total] * 2, rel=0.01)


def test_most_restarts_have_the_area_that_is_asked_for_and_some_have_less():
    limits = budgets(Question((TOY,), FREE, 0.3), 8)
    assert (limits == 0.3).sum() == 6
    assert limits.min() >= machine_area(FREE.at(FREE.smallest)).total


def test_numbers_are_drawn_to_what_can_be_built_with_the_gradient_of_themselves():
    logs = jnp.log(jnp.array([[5000.0], [7000.0], [5.0], [11.0]]))
    half, whole = (snapped(FREE, logs, jnp.float32(share)) for share in (0.5, 1.0))
    assert np.exp(whole[:, 0]).tolist() == pytest.approx([5000, 7000, 4, 8], rel=1e-4)
    assert float(half[2, 0]) == pytest.approx(float(logs[2, 0] + np.log(4)) / 2, rel=1e-4)
    slopes = jax.jacobian(lambda u: snapped(FREE, u, jnp.float32(0.7)))(logs[:, 0][:, None])
    assert np.allclose(np.asarray(slopes)[:, 0, :, 0], np.eye(4))


def test_area_has_a_price_only_beyond_the_budget_unless_it_is_asked_for():
    logs = jnp.log(jnp.array([FREE.largest, FREE.smallest])).T
    limits = jnp.full(2, 0.3)
    priced = jax.jit(partial(area_loss, FREE))
    loss = priced(logs, Prices(limits, jnp.float32(0)), jnp.float32(2.0))
    over = np.log(machine_area(FREE.at(FREE.largest)).total / 0.3)
    assert loss.tolist() == pytest.approx([30 * 2 * over**2, 0], rel=1e-3)
    asked = priced(logs, Prices(limits, jnp.float32(1)), jnp.float32(2.0))
    areas = [np.log(machine_area(FREE.at(end)).total) for end in (FREE.largest, FREE.smallest)]
    assert (asked - loss).tolist() == pytest.approx(areas, rel=1e-3)


def test_the_slope_in_an_energy_is_its_share_of_the_networks_energy():
    machine = FLAT.at(FLAT.largest)
    problem = gradient.pack_problem(PRODUCT, machine, SETTINGS)
    state = gradient.init(problem, SETTINGS, 0)
    noise = draw_noise(problem.arrays, SETTINGS, state)
    now = anneal(SETTINGS, 0)
    found = jax.jit(partial(pull, of_machine=True))(problem.arrays, SETTINGS, state, now, noise)
    assert found.machine is not None
    energy_pj = np.asarray(found.seen.energy_pj, dtype=np.float64)
    mac_pj = PRODUCT.macs * machine.mac_pj
    assert float(found.machine.mac_pj) * machine.mac_pj == pytest.approx(np.sum(mac_pj / energy_pj), rel=1e-3)
    shares = [found.machine.read_pj[i] * memory.read_pj for i, memory in enumerate(machine.memories)]
    writes = [found.machine.write_pj[i] * memory.write_pj for i, memory in enumerate(machine.memories)]
    total = float(sum(shares) + sum(writes)) + np.sum(mac_pj / energy_pj)
    assert total == pytest.approx(SETTINGS.restarts, rel=1e-3)


def test_the_descent_proposes_machines_that_can_be_built_within_the_area():
    question, found = Question((PRODUCT,), FLAT, AREA_MM2), list[Candidate]()
    steps = list(descend(question, SETTINGS, 0, inf, found))
    assert steps[-1].step == SETTINGS.steps
    assert 1 <= len(found) <= SETTINGS.restarts
    assert len({candidate.values for candidate in found}) == len(found)
    for candidate in found:
        assert question.fits(candidate.values)
        assert FLAT.rounded(candidate.values) == candidate.values
    best = FLAT.at(found[0].values)
    assert best.peak_macs > 2  # lanes are worth their area


def test_machines_that_follow_from_mappings_shrink_where_that_pays():
    question, found = Question((PRODUCT,), FLAT, AREA_MM2), list[Candidate]()
    list(descend(question, gradient.DescentSettings(restarts=8, steps=40, fuse=False), 0, inf, found, derived=True))
    assert all(question.fits(candidate.values) for candidate in found)
    best = FLAT.at(found[0].values)
    assert best.peak_macs > 2
    assert best.memories[1].bytes < FLAT.largest[0] / 2
