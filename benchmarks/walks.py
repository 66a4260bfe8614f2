"""How long a walk through the extents of one layer takes, compiled, and how many a proof of it needs.

Run: ``python -m benchmarks.walks``
"""

import time

from fadiff.hardware import load_machine
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import ON_ITS_OWN
from fadiff.workload import load_model

LAYERS = (
    ("resnet18", "l2.1.conv1", "gemmini-small"),
    ("resnet18", "l2.1.conv1", "simple-output-stationary"),
    ("resnet18", "l2.1.conv1", "eyeriss"),
    ("resnet18", "l2.1.conv1", "simba"),
    ("resnet18", "l2.1.conv1", "ascend-like"),
    ("gpt3-6.7b", "v_proj", "tesla-npu-like-df"),
)
WEIGHTS = (1.0, 300.0)
"""Of a pJ and of a cycle."""
MOST_WALKS = 200


def main() -> None:
    LayerBound(load_model("resnet18")["conv1"], load_machine("gemmini-small"), (ON_ITS_OWN,)).at(WEIGHTS, passes=3)
    print(
        "| layer | accelerator | nodes | walks | ms each, all that is around them included |\n|---|---|---:|---:|---:|"
    )
    for model, layer, name in LAYERS:
        machine = load_machine(name)
        bound = LayerBound(load_model(model)[layer], machine, (ON_ITS_OWN,))
        began = time.process_time()
        bound.at(WEIGHTS, passes=MOST_WALKS)
        each = (time.process_time() - began) / bound.passes * 1e3
        print(f"| {model} {layer} | {name} | {len(machine.nodes)} | {bound.passes} | {each:.1f} |")


if __name__ == "__main__":
    main()
