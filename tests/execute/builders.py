"""Small schedules written as text, and what an execution says in the words of others."""

from collections import Counter
from math import prod

from fadiff.execute import Access, Count, Execution, LayerRun, execute
from fadiff.hardware import Axis, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.ir import DEFAULT_ORDER
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


def machine(spad=1 << 20, acc=1 << 20, **changes) -> Machine:
    """A small Gemmini: 4 x 4 lanes."""
    nodes = (
        Memory("dram", "WIO", 1, 1, word_bits=8, words_per_cycle=8),
        Memory("spad", "WI", 1, 1, bytes=spad, word_bits=8, fuses=True, words_per_cycle=8),
        Axis("cols", 4, "KG"),
        Memory("acc", "O", 1, 1, bytes=acc, word_bits=32, words_per_cycle=2),
        Axis("rows", 4, "C"),
        Memory("reg", "W", 1, 1, bytes=1, word_bits=8),
    )
    return Machine("toy", nodes, 1.0, online_softmax=True, **changes)


def order(text: str) -> str:
    """Loops named outer to inner; the others, which have one trip, go first."""
    return "".join(dim for dim in DEFAULT_ORDER if dim not in text) + text


def tiled(on: Machine, orders: str = "", **factors: str) -> Mapping:
    """Factors by node, ``dram="P4"``, and orders, ``"dram:KN acc:RS"``."""
    told = dict(part.split(":") for part in orders.split())
    return Mapping.of(on, {node: dims(text) for node, text in factors.items()}, {k: order(v) for k, v in told.items()})


def group(names: str, trips="", loops="GNPQ") -> Group:
    shared = {part[0]: int(part[1:]) for part in trips.split()}
    return Group(tuple(names.split()), Trips(**shared), loops)


def schedule(on, layers, groups, mappings) -> Schedule:
    return Schedule(Workload("toy", tuple(layers)), on, tuple(groups), mappings)


def alone(on, layer, mapping) -> Schedule:
    return schedule(on, [layer], [Group((layer.name,))], {layer.name: mapping} if layer.is_mac else {})


def run(plan: Schedule) -> Execution:
    """Executes a schedule that is right and fits."""
    result = execute(plan, seed=1)
    assert result.exact, result.mismatches
    assert result.overflows == ()
    return result


def accounted(count: Count) -> int:
    """The bits that the model must say."""
    return count.bits + count.padding_bits + count.lead_bits


def accounted_bits(run: LayerRun) -> Counter:
    """What the model must say, by (memory, tensor, way); nothing where nothing moves."""
    return Counter({tuple(kind): accounted(n) for kind, n in run.counts.items() if accounted(n)})


def words(result: Execution, layer: str, memory: str, tensor: str, way: str) -> float:
    """What moved, in words."""
    return result.layers[layer].counts[Access(memory, tensor, way)].words


def price(plan: Schedule, result: Execution) -> tuple[float, float]:
    """Energy in pJ and cycles of a schedule as section 6 of the contract has them, from what was executed."""
    on, energy, cycles = plan.machine, 0.0, 0.0
    for layer in plan.workload.layers:
        ran = result.layers[layer.name]
        moved = Counter()
        for kind, count in ran.counts.items():
            moved[kind.memory, kind.way] += accounted(count) / count.word_bits
        spent = ran.macs * on.mac_pj
        terms = []
        for memory in on.memories:
            read, written, busy = (
                moved[memory.name, "read"],
                moved[memory.name, "write"],
                _instances(plan, layer, memory.name),
            )
            spent += read * memory.read_pj + written * memory.write_pj
            rates = (
                (read + written, memory.words_per_cycle),
                (read, memory.read_words_per_cycle),
                (written, memory.write_words_per_cycle),
            )
            terms.append(max(n / (rate * busy) if rate is not None else 0.0 for n, rate in rates))
        on_chip = max(ran.steps + ran.lead_steps, *terms[1:])
        energy += spent * layer.repeat
        cycles += layer.repeat * (on_chip + terms[0] if on.overlap == "none" else max(on_chip, terms[0]))
    return energy, cycles


def _instances(plan: Schedule, layer: Layer, memory: str) -> int:
    """Instances in use: lanes of the axes above, all of them in an add layer."""
    node = plan.machine.number[memory]
    if not layer.is_mac:
        return plan.machine.instances(node)
    factors = plan.mappings[layer.name].factors
    return prod(prod(factors[i]) for i in range(node) if isinstance(plan.machine.nodes[i], Axis))
