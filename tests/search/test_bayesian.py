"""Bayesian optimization: the model predicts what it was shown, proposals are new, and its runs repeat."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fadiff.cost import save_schedule
from fadiff.schedule.legality import violations
from fadiff.search import bayesian as bayesian_module
from fadiff.search.bayesian import BayesianOptions, Surrogate, bayesian
from fadiff.search.driver import Settings, search
from search.networks import NETWORKS, add, mac, machine, network
from search.populations import BATCH, refused_without

SMALL = BayesianOptions(
    design=BATCH, batch=BATCH, steps=8, training_points=96, fit_iterations=4, candidates=128, rounds=2, patience=3
)
CHIP = machine(rows=2, cols=4, l1_bytes=128, l2_bytes=100)


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


def test_variations_change_a_few_numbers_inside_the_cube():
    points = np.random.default_rng(0).random((4000, 50))
    varied = bayesian_module._varied(points, 6.0, np.random.default_rng(1))
    assert ((varied >= 0) & (varied <= 1)).all()
    changed = (varied != points).sum(axis=1)
    assert changed.min() >= 1
    assert changed.mean() == pytest.approx(6.5, rel=0.1)


@cache
def found(name, seed=0):
    return search(NETWORKS[name], CHIP, partial(bayesian, options=SMALL), Settings(seed=seed))


@pytest.mark.parametrize("name", ["feed_forward", "attention", "residual"])
def test_the_result_is_legal_and_better_than_greedy(name):
    result = found(name)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.best.edp_uj_cycles < result.greedy.edp_uj_cycles
    assert [point.phase for point in result.trace] == ["greedy", "design"] + ["model"] * (SMALL.steps - 1)


def test_the_design_holds_the_greedy_schedule():
    result = search(NETWORKS["conv_chain"], CHIP, partial(bayesian, options=SMALL), Settings())
    first = result.trace[1]
    assert first.phase == "design"
    assert first.found_edp_uj_cycles <= result.greedy.edp_uj_cycles * (1 + 1e-6)


def test_no_point_is_proposed_twice(monkeypatch):
    proposed = []
    promising = bayesian_module._promising

    def watched(*arguments):
        points = promising(*arguments)
        proposed.extend(row.tobytes() for row in points)
        return points

    monkeypatch.setattr(bayesian_module, "_promising", watched)
    search(
        NETWORKS["attention"],
        CHIP,
        partial(bayesian, options=BayesianOptions(**{**vars(SMALL), "patience": 99})),
        Settings(),
    )
    assert len(proposed) > 3 * BATCH
    assert len(set(proposed)) == len(proposed)


def test_the_same_seed_writes_the_same_bytes_and_leaves_the_global_state(tmp_path):
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    for i in range(2):
        found.cache_clear()
        save_schedule(tmp_path / f"{i}.json", found("residual", 2).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_a_network_whose_schedules_are_soon_all_known_ends_the_search():
    sums = network(add("a", "K2", None, None), add("b", "K2", "a", None))
    for workload in (network(mac("a", "K2")), sums, network(add("a", "K2", None, None))):
        result = search(workload, CHIP, partial(bayesian, options=SMALL), Settings())
        assert result.stopped == "done"
        assert violations(result.schedule) == []


def test_without_botorch_the_method_says_what_to_install(monkeypatch):
    sentence = refused_without(monkeypatch, "bayesian", "botorch")
    assert sentence == "method 'bayesian' needs botorch: pip install 'fadiff-scheduler[baselines]'"
