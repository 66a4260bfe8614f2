"""Exported schedules in ZigZag itself: whether its files load, and whether both tools count the same accesses.

Run: ``python -m benchmarks.in_zigzag make DIR``, and then ``python benchmarks/in_zigzag.py check DIR``, with a Python
that has ``zigzag-dse`` and need not have FADiff.

`make` schedules networks on machines of the catalog without fusion and with exact factors, exports them, and writes
what the cost model counts. For the comparison all values have 8 bits and nothing is pooled, so that a count is a number
of values in both. `check` loads every file with ZigZag's own parsers, puts each loop at the memory where the schedule
has it, which a mapping file cannot say, and runs ZigZag's cost model. It compares reads and writes of each tensor at
each memory that keeps it. Two rules differ: of inputs ZigZag counts what windows touch, not the boxes around them, and
it reloads old sums into every lane over C, R or S above a memory of sums.
"""

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

MODELS = ("resnet18", "mobilenet_v1", "vgg16", "bert-base:seq=128")
MACHINES = (
    "gemmini-large",
    "eyeriss",
    "nvdla-large",
    "simba",
    "tpu-like",
    "meta-proto-like",
    "simple-output-stationary",
)
COUNTS = "counts.json"
OTHER_RULES = {"I": "windows", "O": "parts"}
DIM_NAMES = dict(zip("GNKCPQRS", ("G", "B", "K", "C", "OY", "OX", "FY", "FX"), strict=True))


def make(root: Path) -> None:
    """Export every network on every machine."""
    import numpy as np

    from fadiff import greedy, load_machine, load_model
    from fadiff.cost.flows import REDUCED, flow_table
    from fadiff.cost.model import layer_costs
    from fadiff.export import export
    from fadiff.export.exported import folder_names
    from fadiff.hardware import Bits, Memory, pack_machine
    from fadiff.schedule.rules import Examined

    root.mkdir()
    for model in MODELS:
        for name in MACHINES:
            given, network = load_machine(name), load_model(model)
            nodes = tuple(replace(n, word_bits=8) if isinstance(n, Memory) else n for n in given.nodes)
            machine = replace(given, nodes=nodes, bits=Bits(8, 8, 8, 8, 8), vector=None)
            schedule = greedy(network, machine, exact_factors=True)
            folder = root / f"{model.partition(':')[0]}.{name}"
            export(schedule, "zigzag").save(folder)
            examined = Examined(schedule)
            words = layer_costs(examined.nest, pack_machine(machine)).words
            rows: dict[str, Any] = {}
            for layer, mapping in examined.mapped():
                if layer.stored_words != layer.output_words:
                    continue
                counts: Counter[str] = Counter()
                for flow, of_layers in zip(flow_table(machine.structure), words, strict=True):
                    key = f"{flow.tensor} {machine.nodes[flow.memory].name} {flow.action}"
                    counts[key] += round(float(np.asarray(of_layers)[examined.number[layer.name]]))
                loops = {
                    machine.nodes[memory].name: [
                        (DIM_NAMES[dim], factor)
                        for dim in reversed(order)
                        if (factor := getattr(mapping.factors[memory], dim)) > 1
                    ]
                    for memory, order in zip(machine.structure.memories, mapping.orders, strict=True)
                }
                rows[layer.name] = {
                    "folder": folder_names(schedule)[layer.name],
                    "counts": counts,
                    "loops": loops,
                    "windows": layer.dims.R * layer.dims.S > 1 or layer.stride != (1, 1),
                    "parts": any(
                        mapping.factors[axis][d] > 1
                        for axis in machine.structure.axes_between(0, machine.structure.keepers("O")[-1])
                        for d in REDUCED
                    ),
                    "keepers": {t: [machine.nodes[m].name for m in machine.structure.keepers(t)] for t in "WIO"},
                    "macs": layer.macs,
                }
            (folder / COUNTS).write_text(json.dumps(rows), encoding="utf-8")
            print(folder, len(rows))


def check(root: Path) -> None:
    """Load everything with ZigZag, and compare what it counts."""
    equal, different = Counter[str](), Counter[str]()
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for name, row in json.loads((folder / COUNTS).read_text(encoding="utf-8")).items():
            for key, theirs in counted(folder, row).items():
                ours = row["counts"].get(key, 0)
                other_rule = row[OTHER_RULES[key[0]]] if key[0] in OTHER_RULES else False
                kind = f"{key[0]}, where rules differ" if other_rule else key[0]
                (equal if theirs == ours else different)[kind] += 1
                if theirs != ours and not other_rule:
                    print(f"{folder.name} {name}: {key}: {ours:,} here, {theirs:,} in ZigZag")
    for kind in sorted(equal | different):
        print(f"{kind}: {equal[kind]} of {equal[kind] + different[kind]} counts are equal")


def counted(folder: Path, row: dict[str, Any]) -> dict[str, int]:
    """What ZigZag's cost model counts for a layer."""
    import yaml
    from zigzag.cost_model.cost_model import CostModelEvaluation
    from zigzag.datatypes import LayerDim, LayerOperand
    from zigzag.hardware.architecture.memory_port import DataDirection
    from zigzag.mapping.data_movement import DataMoveAttr
    from zigzag.mapping.temporal_mapping import TemporalMapping, TemporalMappingType
    from zigzag.parser.accelerator_factory import AcceleratorFactory
    from zigzag.parser.accelerator_validator import AcceleratorValidator
    from zigzag.parser.mapping_validator import MappingValidator
    from zigzag.parser.workload_factory import WorkloadFactory
    from zigzag.parser.workload_validator import WorkloadValidator
    from zigzag.stages.evaluation.cost_model_evaluation import CostModelStage
    from zigzag.stages.mapping.spatial_mapping_conversion import SpatialMappingConversionStage

    def loaded(kind: Any, path: Path) -> Any:  # noqa: ANN401
        validator = kind(yaml.safe_load(path.read_text(encoding="utf-8")))
        assert validator.validate(), path
        return validator.normalized_data

    place = folder / row["folder"]
    accelerator = AcceleratorFactory(loaded(AcceleratorValidator, folder / "accelerator.yaml")).create()
    mapping = loaded(MappingValidator, place / "mapping.yaml")
    (layer,) = WorkloadFactory(loaded(WorkloadValidator, place / "workload.yaml"), mapping).create().node_list
    assert layer.total_mac_count == row["macs"], place
    layer.spatial_mapping.oa_dim_sizes = accelerator.operational_array.dimension_sizes
    stage = SpatialMappingConversionStage([CostModelStage], accelerator=accelerator, layer=layer)
    spatial, whole = stage.convert_user_spatial_mapping(layer.spatial_mapping)
    levels: dict[Any, list[list[tuple[Any, int]]]] = {}
    for tensor, keepers in row["keepers"].items():
        mine: list[list[tuple[Any, int]]] = []
        waiting: list[tuple[Any, int]] = []
        for memory in reversed(row["loops"]):
            waiting += [(LayerDim(dim), factor) for dim, factor in row["loops"][memory]]
            if memory in keepers:
                mine.append(waiting)
                waiting = []
        levels[LayerOperand(tensor)] = mine
    temporal = TemporalMapping(levels, layer, TemporalMappingType.UNEVEN)
    cost = CostModelEvaluation(
        accelerator=accelerator,
        layer=layer,
        spatial_mapping=spatial,
        spatial_mapping_int=whole,
        temporal_mapping=temporal,
        access_same_data_considered_as_no_access=False,
    )
    ways = {
        "read": (DataDirection.RD_OUT_TO_LOW, DataDirection.RD_OUT_TO_HIGH),
        "write": (DataDirection.WR_IN_BY_LOW, DataDirection.WR_IN_BY_HIGH),
    }
    found: dict[str, int] = {}
    for tensor, keepers in row["keepers"].items():
        for moved, memory in zip(
            cost.mapping.unit_mem_data_movement[LayerOperand(tensor)], reversed(keepers), strict=True
        ):
            values = moved.get_attribute(DataMoveAttr.DATA_ELEM_MOVE_COUNT)
            for action, directions in ways.items():
                found[f"{tensor} {memory} {action}"] = sum(values.get(direction) for direction in directions)
    return found


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
