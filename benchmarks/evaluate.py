"""How fast the cost model prices mappings: layer-mappings a second, for a batch of random ResNet-18 mappings.

Run: ``python -m benchmarks.evaluate [--model resnet18] [--batch 4096] [--json]``

One layer-mapping is one layer of one schedule: traffic at every level, tiles, latency and energy, all terms kept. The
compiled model runs in 32 and in 64 bits; the ratio to one-at-a-time evaluation in NumPy is taken in the same run.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from fadiff.cost import evaluate
from fadiff.cost.arrays import (
    Fusion,
    HardwareArrays,
    LayerArrays,
    MappingArrays,
    fuse,
    pack_edges,
    pack_hardware,
    pack_layers,
)
from fadiff.cost.model import layer_costs, network_cost
from fadiff.hardware import load_hardware
from fadiff.search.greedy import greedy
from fadiff.workload import DIMS, Workload, load_model

REPETITIONS = 7


def random_mappings(workload: Workload, batch: int, seed: int) -> MappingArrays:
    """Every prime factor of every dim in a random slot, every loop order random: ``[..., batch, layers]``."""
    random = np.random.default_rng(seed)
    layers = len(workload.layers)
    factors = np.ones((5, 8, batch, layers))
    for i, layer in enumerate(workload.layers):
        for d, size in enumerate(layer.dims if layer.is_mac else ()):
            prime, rest = 2, size
            while rest > 1:
                while rest % prime == 0:
                    rest //= prime
                    slot = random.integers(5, size=batch)
                    factors[slot, d, np.arange(batch), i] *= prime
                prime += 1
    rank = random.random((3, len(DIMS), batch, layers)).argsort(axis=1).astype(np.float64)
    return MappingArrays(spatial=factors[0], temporal=factors[1:], rank=rank)


def _as(dtype: type, values: np.ndarray) -> np.ndarray:
    return values if values.dtype == bool else np.asarray(values, dtype)


def best_seconds(call: Callable[[], object]) -> float:
    """The fastest of a few runs: what the machine can do when nobody disturbs it."""
    times: list[float] = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return min(times)


def measure(model: str, batch: int) -> dict[str, float]:
    """Layer-mappings a second, compiled in 32 and 64 bits, and one schedule at a time."""
    workload, hardware = load_model(model), load_hardware("gemmini-large")
    layers, machine = pack_layers(workload), pack_hardware(hardware)
    count = len(workload.layers)
    ones = np.ones((5, 1, count))
    fusion = fuse(pack_edges(workload), np.zeros((1, len(workload.edges))), ones, ones, ones[:2])
    mappings = random_mappings(workload, batch, seed=0)

    def price(layers: LayerArrays, mapping: MappingArrays, fusion: Fusion, machine: HardwareArrays) -> object:
        costs = layer_costs(layers, mapping, fusion, machine)
        return network_cost(layers, costs), costs.traffic, costs.energy, costs.cycles

    result: dict[str, float] = {}
    for name, dtype in (("float32", np.float32), ("float64", np.float64)):
        with jax.enable_x64(dtype is np.float64):
            compiled = jax.jit(price)
            given = jax.device_put(
                [jax.tree.map(partial(_as, dtype), part) for part in (layers, mappings, fusion, machine)]
            )
            jax.block_until_ready(compiled(*given))
            seconds = best_seconds(partial(compiled, *given))
            result[f"layer_mappings_per_second_{name}"] = batch * count / seconds
    schedule = greedy(workload, hardware)
    result["layer_mappings_per_second_one_by_one"] = count / best_seconds(lambda: evaluate(schedule).edp_uj_cycles)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.model, arguments.batch)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:42s} {value:14,.0f}")
    print(f"compiled (float64) over one by one: {ratio(result):,.0f}x")


def ratio(result: dict[str, float]) -> float:
    """Speed-up of the batch over one schedule at a time, measured in the same run."""
    return result["layer_mappings_per_second_float64"] / result["layer_mappings_per_second_one_by_one"]


if __name__ == "__main__":
    main()
