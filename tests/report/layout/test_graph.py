"""What a picture of very many layers shows: equal blocks once, and never more boxes than can be read."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fadiff.hardware import load_machine
from fadiff.report.layout import draw, graph_of
from fadiff.schedule import Group, Schedule
from fadiff.workload import Dims, Input, Layer, Workload
from report.layout.test_layout import networks
from report.plans import plain

MACHINE = load_machine("gemmini-small")


def chain(blocks: list[tuple[int, ...]]) -> Schedule:
    """Blocks of layers, each of so many rows, one after the other."""
    sizes = [rows for block in blocks for rows in block]
    layers = [
        Layer(f"l{i}", "mac", Dims(N=rows, K=8, C=8), (Input(f"l{i - 1}" if i else None, fusible=i == 0),))
        for i, rows in enumerate(sizes)
    ]
    return plain(Workload("chain", tuple(layers)), MACHINE)


def test_a_few_layers_have_a_box_each_and_a_line_for_each_tensor():
    schedule = chain([(2, 3)] * 5)
    graph = graph_of(schedule)
    assert [node.layers for node in graph.nodes] == [(layer.name,) for layer in schedule.workload.layers]
    assert [link.edges for link in graph.links] == [(i,) for i in range(len(schedule.workload.edges))]


def test_a_block_that_comes_again_and_again_is_drawn_once():
    graph = graph_of(chain([(1,), *[(2, 3, 4)] * 6, (5,)]), most=12)
    assert [len(node.layers) for node in graph.nodes] == [1, 1, 1, 1, 15, 1]
    (rest,) = (node for node in graph.nodes if len(node.layers) > 1)
    assert (rest.title, rest.about) == ("the same 5×", "3 layers each, 15")
    assert [(link.source, link.target) for link in graph.links] == list(pairwise(graph.topological))
    assert graph.links[3].edges == (3,)


def test_what_does_not_repeat_is_drawn_in_stretches():
    graph = graph_of(chain([(i,) for i in range(1, 51)]), most=12)
    assert [len(node.layers) for node in graph.nodes] == [5] * 10
    assert (graph.nodes[0].title, graph.nodes[0].about) == ("l0 – l4", "5 layers")


@given(networks(), st.integers(1, 12))
def test_every_layer_has_a_box_and_lines_lead_onwards(schedule: Schedule, most: int):
    graph = graph_of(schedule, most)
    assert len(graph.nodes) <= max(most, 1)
    boxed = [name for node in graph.nodes for name in node.layers]
    assert sorted(boxed) == sorted(layer.name for layer in schedule.workload.layers)
    place = {name: i for i, name in enumerate(graph.topological)}
    assert all(place[link.source] < place[link.target] for link in graph.links)
    node_of = {name: node.name for node in graph.nodes for name in node.layers}
    edges = schedule.workload.edges
    crossing = [i for i, edge in enumerate(edges) if node_of[edge.source] != node_of[edge.target]]
    assert sorted(i for link in graph.links for i in link.edges) == crossing
    for link in graph.links:
        assert link.words == max(schedule.workload[edges[i].source].stored_words for i in link.edges)
        assert {schedule.is_fused(edges[i]) for i in link.edges} == {link.fused}
    drawing = draw(graph, 360.0)
    assert set(drawing.boxes) == {node.name for node in graph.nodes}


def test_groups_that_fuse_are_drawn_layer_by_layer_where_there_is_room():
    schedule = chain([(2, 3)] * 8)
    fused = replace(schedule, groups=tuple(Group((f"l{i}", f"l{i + 1}")) for i in range(0, 16, 2)))
    graph = graph_of(fused, most=10)
    assert [len(node.layers) for node in graph.nodes] == [1, 1, 1, 1, 10, 1, 1]
    assert [link.fused for link in graph.links] == [True, False, True, False, False, True]
