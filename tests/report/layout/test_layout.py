"""The picture of a network: nothing overlaps, no line crosses a layer, every tensor ends where it is read."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import FIRST
from fadiff.hardware import load_machine
from fadiff.report.layout import Box, Drawing, draw, graph_of
from fadiff.report.layout.ranks import cells
from fadiff.report.layout.routes import places
from fadiff.report.layout.rows import wrap
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.file import read_schedule
from fadiff.workload import Dims, Input, Layer, Workload, load_model
from report.plans import plain

MACHINE = load_machine("gemmini-small")


@st.composite
def networks(drawn: st.DrawFn) -> Schedule:
    """Any graph of layers of 8 channels, cut into groups of neighbours at random: layout asks for no legality."""
    count = drawn(st.integers(1, 24))
    layers: list[Layer] = []
    for i in range(count):
        names = [layer.name for layer in layers]
        sources = drawn(st.lists(st.sampled_from([None, *names[-9:]]), min_size=1, max_size=3))
        named = [source for source in sources if source is not None]
        if len(named) == 2 and drawn(st.booleans()):
            layers.append(Layer(f"n{i}", "add", Dims(K=8), tuple(Input(source, "addend") for source in named)))
        else:
            inputs = tuple(Input(source) for source in sources)
            layers.append(Layer(f"n{i}", "mac", Dims(K=8, C=8 * len(inputs)), inputs))
    workload = Workload("random", tuple(layers))
    order = workload.topological
    cuts = drawn(st.sets(st.integers(0, count)))
    groups = tuple(Group(order[a:b]) for a, b in pairwise(sorted({0, count, *cuts})))
    mappings = {layer.name: Mapping.of(MACHINE, {"DRAM": layer.dims}) for layer in layers if layer.is_mac}
    return Schedule(workload, MACHINE, groups, mappings)


def check(schedule: Schedule, drawing: Drawing) -> None:
    boxes = drawing.boxes
    assert set(boxes) == {layer.name for layer in schedule.workload.layers}
    for a, b in combinations(boxes.values(), 2):
        assert apart(a, b)
    for box in boxes.values():
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= drawing.width
        assert box.y + box.height <= drawing.height
    assert [(line.link.source, line.link.target) for line in drawing.lines] == [
        edge[:2] for edge in schedule.workload.edges
    ]
    for line in drawing.lines:
        source, target = boxes[line.link.source], boxes[line.link.target]
        (x0, y0), *_, (x1, y1) = line.points
        assert source.x + source.width / 2 < x0 <= source.x + source.width
        assert target.x <= x1 < target.x + target.width / 2
        assert source.y < y0 < source.y + source.height
        assert target.y < y1 < target.y + target.height
        for (ax, ay), (bx, by) in pairwise(line.points):
            assert ax == bx or ay == by, "lines run across or down"
            assert min(ax, bx) >= 0
            assert max(ax, bx) <= drawing.width
            assert min(ay, by) >= 0
            assert max(ay, by) <= drawing.height
            for name, box in boxes.items():
                if name not in (line.link.source, line.link.target):
                    assert misses(box, (ax, ay), (bx, by)), f"{line.link} runs through {name}"


def apart(a: Box, b: Box) -> bool:
    across = a.x + a.width < b.x or b.x + b.width < a.x
    return across or a.y + a.height < b.y or b.y + b.height < a.y


def misses(box: Box, a: tuple[float, float], b: tuple[float, float]) -> bool:
    left, right = min(a[0], b[0]), max(a[0], b[0])
    top, bottom = min(a[1], b[1]), max(a[1], b[1])
    return right <= box.x or left >= box.x + box.width or bottom <= box.y or top >= box.y + box.height


@given(networks(), st.sampled_from([200.0, 360.0, 1120.0]))
def test_no_line_crosses_a_layer_and_no_two_layers_overlap(schedule: Schedule, room: float):
    check(schedule, draw(graph_of(schedule), room))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "bert-base"])
@pytest.mark.parametrize("room", [360.0, 1120.0])
def test_networks_of_the_zoo_are_drawn_within_their_room(name: str, room: float):
    schedule = plain(load_model(name), MACHINE)
    drawing = draw(graph_of(schedule), room)
    check(schedule, drawing)
    assert drawing.width < room + 90  # lines beside the rows take a little more
    assert draw(graph_of(schedule), room) == drawing


@given(networks())
def test_different_tensors_never_run_across_on_one_another(schedule: Schedule):
    runs = [
        (y0, sorted((x0, x1)), (line.link.source, line.link.fused))
        for line in draw(graph_of(schedule), 360.0).lines
        for (x0, y0), (x1, y1) in pairwise(line.points[1:-1])  # at their ends lines may share a port
        if y0 == y1
    ]
    for (y, (a, b), one), (other_y, (c, d), other) in combinations(runs, 2):
        assert one == other or y != other_y or b <= c or d <= a, f"{one} and {other} share a line"


@given(networks())
def test_edges_lead_to_higher_ranks_and_no_cell_is_shared(schedule: Schedule):
    cell = cells(graph_of(schedule))
    assert len(set(cell.values())) == len(cell)
    assert all(cell[edge.source].rank < cell[edge.target].rank for edge in schedule.workload.edges)


def test_a_chain_is_one_straight_lane():
    schedule = plain(load_model("vgg16"), MACHINE)
    assert {cell.lane for cell in cells(graph_of(schedule)).values()} == {0}
    assert all(len({y for _, y in line.points}) == 1 for line in draw(graph_of(schedule), 1e6).lines)


def test_a_residual_runs_over_the_layers_it_skips():
    schedule = read_schedule(FIRST / "resnet18.gemmini-large.fused.json")[0]
    drawing = draw(graph_of(schedule), 1e6)
    edges = schedule.workload.edges
    skips = [
        line for line, edge in zip(drawing.lines, edges, strict=True) if edge.port == "addend" and len(line.points) > 2
    ]
    assert skips
    for line in skips:
        if ".down" not in line.link.source:
            top = min(y for _, y in line.points)
            assert top < min(drawing.boxes[line.link.source].y, drawing.boxes[line.link.target].y)


def test_rows_break_where_one_tensor_crosses_rather_than_inside_a_block():
    schedule = plain(load_model("mobilenet_v2"), MACHINE)
    cell = cells(graph_of(schedule))
    widths = [126.0] * (1 + max(c.rank for c in cell.values()))
    place = places(cell, wrap(graph_of(schedule), cell, widths, 34.0, 1120.0))
    assert max(p.column for p in place.values()) <= 6
    assert {p.row for p in place.values()} == set(range(1 + max(p.row for p in place.values())))
    crossing = [e for e in schedule.workload.edges if place[e.source].row != place[e.target].row]
    rows = 1 + max(p.row for p in place.values())
    assert len({e.source for e in crossing}) <= rows + 2
