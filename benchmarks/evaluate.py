"""How fast the cost model prices mappings: layer-mappings a second, for a batch of random ResNet-18 mappings.

Run: ``python -m benchmarks.evaluate [--model resnet18] [--hardware gemmini-large simba ...] [--batch 512] [--json]``

One layer-mapping is one layer of one schedule: every flow of every memory, latency and energy, all terms kept, cut ends
counted. The compiled model runs in 32 and in 64 bits; the ratio to one-at-a-time evaluation in NumPy is taken in the
same run.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from fadiff.cost import evaluate
from fadiff.cost.model import layer_costs, network_cost
from fadiff.hardware import Machine, MachineArrays, load_machine, pack_machine
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays, pack_layers, pack_schedule
from fadiff.schedule.nest import Nest
from fadiff.search.greedy import greedy
from fadiff.search.space import map_space, settle
from fadiff.workload import DIMS, Workload, load_model

REPETITIONS = 7
MACHINES = ("gemmini-large", "ascend-like-df")


def random_mappings(workload: Workload, machine: Machine, batch: int, seed: int) -> MappingArrays:
    """A random whole number at every useful node of every dim, every loop order random: ``[..., batch, layers]``."""
    random = np.random.default_rng(seed)
    layers, space = pack_layers(workload), map_space(machine)
    count = len(workload.layers)
    factors = np.ones((len(machine.nodes), len(DIMS), batch, count))
    for d, dim in enumerate(DIMS):
        for node in space.nodes[dim][1:]:
            drawn = np.exp(random.random((batch, count)) * np.log(np.maximum(layers.size[d], 1)) / 2)
            factors[node, d] = np.floor(drawn)
    rank = random.random((len(machine.memories), len(DIMS), batch, count)).argsort(axis=1).astype(np.float64)
    settled = settle(factors, np.asarray(layers.size)[:, None])
    return MappingArrays(np.where(np.asarray(layers.is_mac) > 0, settled, 1.0), rank)


def best_seconds(call: Callable[[], object]) -> float:
    """The fastest of a few runs: what the machine can do when nobody disturbs it."""
    times: list[float] = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return min(times)


def measure(model: str, hardware: str, batch: int) -> dict[str, float | str]:
    """Layer-mappings a second, compiled in 32 and 64 bits, and one schedule at a time."""
    workload, machine = load_model(model), load_machine(hardware)
    schedule = greedy(workload, machine)
    layers, numbers, fusion = pack_layers(workload), pack_machine(machine), pack_schedule(schedule).fusion
    mappings = random_mappings(workload, machine, batch, seed=0)

    def price(layers: LayerArrays, mapping: MappingArrays, fusion: Fusion, numbers: MachineArrays) -> object:
        costs = layer_costs(Nest(machine.structure, layers, mapping, fusion), numbers)
        return network_cost(layers, costs), costs

    count = len(workload.layers)
    result: dict[str, float | str] = {"hardware": hardware, "nodes": len(machine.nodes)}
    for name, dtype in (("float32", np.float32), ("float64", np.float64)):
        with jax.enable_x64(dtype is np.float64):
            compiled = jax.jit(price)
            given = jax.device_put(
                [jax.tree.map(partial(np.asarray, dtype=dtype), part) for part in (layers, mappings, fusion, numbers)]
            )
            jax.block_until_ready(compiled(*given))
            result[f"layer_mappings_per_second_{name}"] = batch * count / best_seconds(partial(compiled, *given))
    result["layer_mappings_per_second_one_by_one"] = count / best_seconds(lambda: evaluate(schedule).edp_uj_cycles)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--hardware", nargs="+", default=MACHINES)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [measure(arguments.model, hardware, arguments.batch) for hardware in arguments.hardware]
    if arguments.json:
        print(json.dumps(results))
        return
    for result in results:
        for name, value in result.items():
            print(f"{name:42s} {value:>14,.0f}" if isinstance(value, float) else f"{name:42s} {value:>14}")
        print(f"compiled (float64) over one by one: {ratio(result):,.0f}x\n")


def ratio(result: dict[str, float | str]) -> float:
    """Speed-up of the batch over one schedule at a time, measured in the same run."""
    fast, slow = (float(result[f"layer_mappings_per_second_{way}"]) for way in ("float64", "one_by_one"))
    return fast / slow


if __name__ == "__main__":
    main()
