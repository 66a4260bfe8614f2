"""Small schedules written as text, and a run that checks what must always hold."""

from fadiff.execute import Execution, execute
from fadiff.hardware import Hardware, Picojoules
from fadiff.schedule import DEFAULT_ORDER, Group, Mapping, Schedule, Trips
from fadiff.workload import Dims, Input, Layer, Workload


def dims(text: str) -> Dims:
    """``"N8 K4"`` as dims."""
    return Dims(**{part[0]: int(part[1:]) for part in text.split()})


def mac(name, sizes, *sources, **rest) -> Layer:
    """A MAC layer; sources are names (None: a network input), or (name, port)."""
    inputs = tuple(Input(*source) if isinstance(source, tuple) else Input(source) for source in sources or (None,))
    return Layer(name, "mac", dims(sizes), inputs, **rest)


def add(name, sizes, *sources, **rest) -> Layer:
    return Layer(name, "add", dims(sizes), tuple(Input(source, "addend") for source in sources), **rest)


def order(text: str) -> str:
    """Loops named outer to inner; the others, which have one trip, go first."""
    return "".join(dim for dim in DEFAULT_ORDER if dim not in text) + text


def tiled(spatial="", t0="", t1="", t2="", t3="", o1="", o2="", o3="") -> Mapping:
    return Mapping(dims(spatial), dims(t0), dims(t1), dims(t2), dims(t3), order(o1), order(o2), order(o3))


def machine(**changes) -> Hardware:
    values = {"name": "toy", "rows": 4, "cols": 4, "l1_bytes": 1 << 16, "l2_bytes": 1 << 16}
    values |= {"pj": Picojoules(1, 1, 1, 1, 1), "spill_words": 4, "online_softmax": True} | changes
    return Hardware(**values)


def group(names: str, trips="", loops="GNPQ") -> Group:
    shared = {part[0]: int(part[1:]) for part in trips.split()}
    return Group(tuple(names.split()), Trips(**shared), loops)


def schedule(layers, groups, mappings, **hardware) -> Schedule:
    return Schedule(Workload("toy", tuple(layers)), machine(**hardware), tuple(groups), mappings)


def alone(layer, mapping, **hardware) -> Schedule:
    return schedule([layer], [Group((layer.name,))], {layer.name: mapping}, **hardware)


def run(plan: Schedule, *, fits: bool = True) -> Execution:
    """Executes a schedule; whatever it is, outputs are right, and each is computed and drained once."""
    result = execute(plan, seed=1)
    assert result.mismatches == ()
    if fits:
        assert result.overflows == ()
    for layer in plan.workload.layers:
        counts = result.counts[layer.name]
        assert counts.macs == layer.macs
        consumers = plan.workload.consumers[layer.name]
        fused = any(map(plan.is_fused, consumers))
        drained = not consumers or not all(map(plan.is_fused, consumers))
        assert counts.l3_output == drained * layer.stored_words
        assert counts.l2_output_copy == fused * layer.stored_words
        assert counts.l1_drain == (fused + drained) * layer.output_words + counts.l1_reload
        assert counts.l3_spill == 2 * plan.hardware.spill_words * counts.l1_reload
        assert counts.l2_weight_read == counts.l0_weight_fill
        assert counts.l2_weight_fill == counts.l3_weight
    return result
