"""What tests of the page share: schedules to show, on machines of all kinds, and stand-ins for what a search says."""

from dataclasses import replace

from examples import FIRST, first, second
from fadiff.analysis.compare import compare_schedules
from fadiff.analysis.search_trace import SearchTrace, parse_trace
from fadiff.cost.evaluate import evaluate
from fadiff.hardware import Memory, Vector, load_machine
from fadiff.report.html import Extras, Rival, report_html
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.file import read_schedule
from fadiff.workload import Dims, Input, Layer, Workload
from fadiff.workload.zoo.cnn import resnet
from report.plans import deep, plain

HOSTILE = "</script><script>alert(1)</script>\"'<!--&amp;"
"""A name that would end the script or an attribute if it were not escaped."""


def why_not(schedule: Schedule) -> list[dict[str, object]]:
    """A reason of each kind in turn, for every tensor that is not fused."""
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    return [
        {
            "source": edge.source,
            "target": edge.target,
            "bytes": schedule.workload[edge.source].stored_words,
            "cause": "no gain" if i % 2 else "capacity",
            "sentence": "would save 1.2 MB but refetch 4.6 MB of weights" if i % 2 else "needs 96 KB more",
            "missing_bytes": None if i % 2 else 98304,
            "edp_change": 0.031 if i % 2 else None,
            "alike": i,
        }
        for i, edge in enumerate(apart)
    ]


def charged() -> Schedule:
    """A block whose epilogues take most of the time, on a machine that states its clock."""
    plan = small()
    layers = tuple(replace(layer, epilogue=("softmax",)) for layer in plan.workload.layers)
    machine = replace(plan.machine, clock_mhz=800.0, vector=Vector(lanes=1, pj=50.0))
    return replace(plan, workload=replace(plan.workload, layers=layers), machine=machine)


def what_if() -> dict[str, object]:
    """Two sensitivities, one of a fixed schedule and one of a mapping that follows."""
    fixed = {"label": "DRAM energy", "value": 100.0, "unit": "pJ/word", "meaning": "stays", "elasticity": 0.39}
    fixed |= {"energy_elasticity": 0.39, "cycles_elasticity": 0.0, "elasticity_shrinking": 0.39}
    fixed |= {"doubled_edp_change": 0.39, "access_energy_elasticity": None}
    follows = {
        "label": "scratchpad capacity",
        "value": 524288.0,
        "unit": "bytes",
        "meaning": "grow",
        "elasticity": -0.05,
    }
    follows |= {"energy_elasticity": -0.03, "cycles_elasticity": -0.02, "elasticity_shrinking": None}
    follows |= {"doubled_edp_change": None, "access_energy_elasticity": 0.02}
    return {"caveat": "All numbers are local.", "sensitivities": [fixed, follows]}


def rivals(schedule: Schedule) -> tuple[Rival, ...]:
    """Nothing fused and nothing kept, in both places."""
    price = evaluate(plain(schedule.workload, schedule.machine))
    return (
        Rival("best unfused", "the best schedule found without fusion", price),
        Rival("greedy", "the greedy heuristic", price),
    )


def trace() -> SearchTrace:
    """A search with a descent in it."""
    numbers = (
        (0.1, "greedy", None, None, 4e9, 0),
        (1.5, "map", None, None, 3e9, 0),
        (4.0, "fuse", None, None, 2e9, 7),
        (6.0, "descend", 0.8, 0.25, 2e9, 7),
        (8.0, "descend", 0.1, 0.75, 1.5e9, 9),
    )
    points = ", ".join(
        f'{{"seconds": {s}, "phase": "{phase}", "step": 0, "temperature": {"null" if t is None else t}, '
        f'"legal_share": {"null" if legal is None else legal}, "best_edp_uj_cycles": {edp}, "fused_edges": {fused}, '
        f'"restart_edp_uj_cycles": {"null" if t is None else [5e9 * t, 2e9, 3e9]}}}'
        for s, phase, t, legal, edp, fused in numbers
    )
    text = f'{{"format": "fadiff-trace/1", "made_by": {{"method": "gradient", "seed": 0}}, "points": [{points}]}}'
    return parse_trace(text, "trace")


def page(schedule: Schedule, *, searched: bool = False, other: Schedule | None = None) -> str:
    """The page of a schedule, with everything that a search could say about it."""
    return report_html(
        evaluate(schedule),
        Extras(
            rivals=rivals(schedule),
            trace=trace() if searched else None,
            comparison=None if other is None else compare_schedules(evaluate(other), evaluate(schedule)),
            why_not=why_not(schedule),
            what_if=what_if(),
        ),
    )


def bare(schedule: Schedule) -> str:
    """The page of a schedule about which nothing else is known."""
    return report_html(evaluate(schedule))


def small() -> Schedule:
    """A residual block of four layers, fused."""
    return first("r1_resid")


def cores() -> Schedule:
    """A residual block on a machine of five memories and three axes."""
    return second("cores_residual")


def large() -> Schedule:
    """A network of 29 layers in two groups."""
    return read_schedule(FIRST / "resnet18.gemmini-large.fused.json")[0]


def long() -> Schedule:
    """A residual network of 206 layers, nothing fused."""
    network = resnet("resnet152", (3, 8, 36, 3), bottleneck=True, batch=1, size=64)
    return plain(network, load_machine("gemmini-large"))


def blocks() -> Schedule:
    """A residual network of 818 layers, 264 of its blocks of three alike, nothing fused."""
    network = resnet("resnet808", (2, 2, 265, 2), bottleneck=False, batch=1, size=32)
    return plain(network, load_machine("gemmini-large"))


def hostile() -> Schedule:
    """Two layers and the nodes of a machine with names that are markup."""
    layers = (
        Layer(HOSTILE, "mac", Dims(N=4, K=8, C=8), (Input(None),)),
        Layer(f"b{HOSTILE}", "mac", Dims(N=4, K=8, C=8), (Input(HOSTILE),)),
    )
    machine = load_machine("gemmini-small")
    nodes = tuple(replace(node, name=f"{node.name} {HOSTILE}") for node in machine.nodes)
    machine = replace(machine, name=f"m {HOSTILE}", nodes=nodes)
    mapping = Mapping.of(machine, {nodes[2].name: Dims(K=8), nodes[4].name: Dims(C=8), nodes[5].name: Dims(N=4)})
    made_by = {"method": HOSTILE, "command": f"fadiff optimize '{HOSTILE}'"}
    groups = tuple(Group((layer.name,)) for layer in layers)
    mappings = {layer.name: mapping for layer in layers}
    return Schedule(Workload(f"net {HOSTILE}", layers), machine, groups, mappings, made_by)


WORDY = "StatefulPartitionedCall/MODEL/block_{0}_expand_BN/FusedBatchNormV3;model/block_{0}_depthwise/Conv2D_{0}"
"""Names as converters make them: long, alike, and in wide letters."""


def wordy() -> Schedule:
    """A chain of layers with such names, on a machine of twelve memories, nothing fused."""
    names = [WORDY.format(i) for i in range(8)]
    sources = [None, *names[:-1]]
    layers = (
        Layer(name, "mac", Dims(N=4, K=8, C=8), (Input(source),)) for name, source in zip(names, sources, strict=True)
    )
    machine = deep(12)
    longer = tuple(
        replace(node, name=f"{node.name} of the innermost MODEL") if isinstance(node, Memory) else node
        for node in machine.nodes
    )
    return plain(Workload("wordy", tuple(layers)), replace(machine, nodes=longer))
