"""What folding equal blocks costs and saves: stacks of blocks, folded and not, searched for the same time.

``python -m benchmarks.folding`` prints the table of docs/import.md.
"""

from dataclasses import replace

from fadiff import Input, Layer, Workload, load_machine, load_model, optimize
from fadiff.workload.repeats import find_runs, folded

COUNTS = (2, 8, 32)
BUDGET_SECONDS = 60


def bottlenecks(count: int) -> Workload:
    """Residual blocks of ResNet-50, in its third stage."""
    return _stacked(load_model("resnet50"), "l3.1.", "l3.0.add", count)


def transformer(count: int) -> Workload:
    """Blocks of BERT base on 128 tokens."""
    return _stacked(load_model("bert-base:seq=128"), "", None, count)


def _stacked(network: Workload, prefix: str, source: str | None, count: int) -> Workload:
    """Copies of a block, each of which reads `source` where the first one does: the last layer of the one before."""
    block = [layer for layer in network.layers if layer.name.startswith(prefix)]
    last = block[-1].name
    layers: list[Layer] = []
    for number in range(count):
        for layer in block:
            inputs = tuple(_input(operand, source, number, f"{number - 1}.{last}") for operand in layer.inputs)
            layers.append(replace(layer, name=f"{number}.{layer.name}", inputs=inputs))
    return Workload(f"{count} blocks", tuple(layers))


def _input(operand: Input, source: str | None, number: int, before: str) -> Input:
    if operand.source != source:
        return replace(operand, source=f"{number}.{operand.source}")
    return Input(before if number else None, operand.port)


def main() -> None:
    """Print a row for each stack."""
    machine = load_machine("gemmini-large")
    print("| blocks | layers | EDP unfolded | s | EDP folded | s | folded / unfolded |\n|---|---|---|---|---|---|---|")
    for name, stack in (("ResNet-50", bottlenecks), ("BERT base", transformer)):
        for count in COUNTS:
            apart = stack(count)
            whole = folded(apart, find_runs(apart, 2))
            first, second = (optimize(one, machine, budget_seconds=BUDGET_SECONDS) for one in (apart, whole))
            cells = (f"{one.best.edp_uj_cycles:.4g} | {one.seconds:.0f}" for one in (first, second))
            ratio = second.best.edp_uj_cycles / first.best.edp_uj_cycles
            print(f"| {count} of {name} | {len(apart.layers)} | {' | '.join(cells)} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
