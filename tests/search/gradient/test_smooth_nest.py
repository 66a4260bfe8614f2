"""Slopes along factors: the counts of the exact nest, with derivatives of their logarithms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cost.batches import BATCH, CORES, EDGES, GEMMINI, LAYERS, batch_of, fused_by, on_jax, sigma_of, stacked
from fadiff.cost.evaluate import evaluate
from fadiff.cost.model import layer_costs, network_cost
from fadiff.hardware import pack_machine
from fadiff.schedule.nest import ALL, SHARED, SHARED_DIMS
from fadiff.search.gradient.smooth_nest import SmoothNest
from fadiff.workload import DIMS


@pytest.fixture(autouse=True)
def _in_double_precision():
    with jax.enable_x64(True):
        yield


def logs_of(machine, packed):
    """Logarithms of all factors, by node and dim, and of the shared trips."""
    factors, dims = packed.mapping.factors, machine.structure.dims
    own = {(n, d): jnp.log(factors[n, d]) for n, taken in enumerate(dims) for d in range(8) if DIMS[d] in taken}
    return own | {(SHARED, d): jnp.log(packed.fusion.shared[d]) for d in SHARED_DIMS}


@pytest.mark.parametrize(("machine", "smooth"), [(GEMMINI, True), (CORES, False)], ids=["smooth", "product"])
def test_every_gradient_is_finite_and_none_changes_a_number(machine, smooth):
    batch = batch_of(machine)
    packed = on_jax(stacked(batch))
    drawn = [np.random.default_rng(i).uniform(0.05, 0.95, EDGES) for i in range(2)]
    sigma = np.stack([*drawn, *map(sigma_of, batch[2:])])

    def log_edp(logs, sigma, numbers):
        fusion = fused_by(packed, sigma)
        nest = SmoothNest(machine.structure, LAYERS, packed.mapping, fusion, logs=logs, smooth=smooth)
        edp = network_cost(LAYERS, layer_costs(nest, numbers)).edp_uj_cycles
        return jnp.sum(jnp.log(edp)), edp

    slopes, edp = jax.grad(log_edp, argnums=(0, 1, 2), has_aux=True)(
        logs_of(machine, packed), jnp.asarray(sigma), on_jax(pack_machine(machine))
    )
    logs, sigmas, numbers = slopes
    along_factors = np.stack(list(logs.values()))
    assert np.all(np.isfinite(along_factors))
    assert np.all(np.isfinite(sigmas))
    for name, slope in numbers._asdict().items():
        assert np.all(np.isfinite(slope)), name
    assert np.all(np.any(along_factors != 0, axis=(0, 2)))
    assert np.all(np.any(sigmas != 0, axis=-1))
    assert np.all(numbers.usable_bytes == 0)
    for i in range(2, BATCH):
        assert float(edp[i]) == pytest.approx(evaluate(batch[i]).edp_uj_cycles, rel=1e-12)


def test_the_slope_of_a_count_is_that_of_a_product():
    """Cut ends make counts jump; relative to a count, its slopes are those of factors that multiply."""
    packed, structure = on_jax(stacked(batch_of(GEMMINI))), GEMMINI.structure

    def count(logs, dim, axes):
        nest = SmoothNest(structure, LAYERS, packed.mapping, packed.fusion, logs=logs)
        values = nest.count(DIMS.index(dim), ALL, axes)
        return jnp.sum(values), values

    for dim, axes in (("K", structure.axes), ("P", ())):
        slopes, values = jax.grad(count, has_aux=True)(logs_of(GEMMINI, packed), dim, axes)
        taken = {(node, DIMS.index(dim)) for node in (SHARED, *structure.memories, *axes)}
        for place, slope in slopes.items():
            np.testing.assert_allclose(slope, values if place in taken else 0 * values, rtol=1e-12)
