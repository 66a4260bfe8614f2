"""Bayesian optimization: the model predicts what it was shown, proposals are new, and its runs repeat."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fadiff.cost.checked import save_schedule
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search.driver import Settings, search
from fadiff.search.evolutionary import bayesian as bayesian_module
from fadiff.search.evolutionary.bayesian import BayesianSettings, Surrogate, bayesian
from search.evolutionary.populations import CHIP
from search.networks import NETWORKS, add, mac, network

SMALL = BayesianSettings(
    design=24, batch=16, steps=6, training_points=96, fit_iterations=4, candidates=64, rounds=2, patience=3
)


def bowl(points):
    """A smooth function with its least value at 0.3."""
    return np.square(points - 0.3).sum(axis=1)


@cache
def model_of_bowl():
    points = np.random.default_rng(0).random((60, 3))
    return Surrogate(points, bowl(points), iterations=40, seed=0), points


def test_improvement_is_expected_where_the_function_is_low():
    model, points = model_of_bowl()
    least = bowl(points).min()
    low, high = np.full((1, 3), 0.3), np.full((1, 3), 0.95)
    gains = model.log_expected_improvement(np.concatenate([low, high, points]), least)
    assert gains[0] == gains.max()
    assert np.exp(gains[0]) == pytest.approx(least, rel=0.2), "the bottom of the bowl is at 0"
    assert gains[1] < gains[0] - 5


def test_log_expected_improvement_is_that_of_the_marginals():
    """Against the closed form EI = s * (z Phi(z) + phi(z)), z = (least - mean) / s, at points predicted one by one."""
    model, points = model_of_bowl()
    least, tried = float(bowl(points).min()), np.random.default_rng(1).random((300, 3))
    with torch.no_grad():
        posteriors = [model.process.posterior(torch.from_numpy(point)[None, None]) for point in tried]
    mean = np.array([-posterior.mean.item() for posterior in posteriors])
    deviation = np.array([posterior.variance.item() ** 0.5 for posterior in posteriors])
    z = (least - mean) / deviation
    expected = deviation * (z * norm.cdf(z) + norm.pdf(z))
    likely = expected > 1e-12
    assert likely.sum() > 10
    gains = model.log_expected_improvement(tried, least)
    assert gains[likely] == pytest.approx(np.log(expected[likely]), rel=1e-4)


def test_a_fit_goes_on_from_the_one_before():
    model, points = model_of_bowl()
    again = Surrogate(points, bowl(points), iterations=1, seed=0, before=model)
    fresh = Surrogate(points, bowl(points), iterations=1, seed=0)
    scales, kept, new = (one.process.covar_module.lengthscale.detach().numpy() for one in (model, again, fresh))
    assert kept == pytest.approx(scales, rel=0.05)
    assert np.abs(np.log(new / scales)).max() > 0.1


def found(workload, machine, own=SMALL, seed=0):
    return search(workload, machine, partial(bayesian, own=own), Settings(seed=seed))


@pytest.mark.parametrize("name", ["feed_forward", "attention", "residual"])
def test_the_result_is_legal_and_better_than_greedy(name):
    result = found(NETWORKS[name], CHIP)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.best.edp_uj_cycles < result.greedy.edp_uj_cycles
    assert [point.phase for point in result.trace] == ["greedy", "design"] + ["model"] * (SMALL.steps - 1)


@pytest.mark.parametrize("name", ["eyeriss", "meta-proto-like-df", "nvdla-small"])
def test_it_runs_on_machines_of_every_kind(name):
    result = found(NETWORKS["residual"], load_machine(name), replace(SMALL, steps=3))
    assert violations(result.found.schedule) == []
    assert result.found.edp_uj_cycles <= result.greedy.edp_uj_cycles * (1 + 1e-6), "the design holds the greedy one"


def test_nothing_is_proposed_twice(monkeypatch):
    proposed = []
    promising = bayesian_module._promising

    def watched(*arguments):
        rows = promising(*arguments)
        proposed.extend(row.tobytes() for row in rows)
        return rows

    monkeypatch.setattr(bayesian_module, "_promising", watched)
    found(NETWORKS["attention"], CHIP, replace(SMALL, patience=99))
    assert len(proposed) > 3 * SMALL.batch
    assert len(set(proposed)) == len(proposed)


def test_the_same_seed_writes_the_same_bytes_and_leaves_the_global_state(tmp_path):
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    for i in range(2):
        save_schedule(tmp_path / f"{i}.json", found(NETWORKS["residual"], CHIP, seed=2).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_network_whose_schedules_are_soon_all_known_ends_the_search():
    sums = network(add("a", "K2", None, None), add("b", "K2", "a", None))
    for workload in (network(mac("a", "K2")), sums, network(add("a", "K2", None, None))):
        result = found(workload, CHIP)
        assert result.stopped == "done"
        assert violations(result.schedule) == []
