"""Equal blocks in a row fold into one that repeats, and nothing but fusion across their borders is lost."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff import Dims, Input, Layer, Workload, evaluate, greedy, load_machine, load_model
from fadiff.workload.repeats import Run, find_runs, folded


def linear(name: str, source: str | None, c: int = 8, k: int = 8, **more: object) -> Layer:
    return Layer(name, "mac", Dims(N=4, K=k, C=c), (Input(source),), **more)  # pyright: ignore[reportArgumentType]


def residual(blocks: int, first: str | None = "stem") -> list[Layer]:
    """Blocks of two products and a sum with what came in."""
    layers: list[Layer] = []
    source = first
    for i in range(blocks):
        layers += [linear(f"{i}.up", source, 8, 16), linear(f"{i}.down", f"{i}.up", 16, 8)]
        layers.append(Layer(f"{i}.add", "add", Dims(N=4, K=8), (Input(f"{i}.down", "addend"), Input(source, "addend"))))
        source = f"{i}.add"
    return layers


STEM, HEAD = linear("stem", None), linear("head", "4.add", k=3)
NET = Workload("net", (STEM, *residual(5), HEAD))


def test_a_row_of_equal_blocks_is_one_run():
    assert find_runs(NET, 2) == [Run(1, 3, 5)]
    assert find_runs(NET, 6) == []


def test_a_folded_block_repeats_and_is_fused_with_nothing_outside():
    small = folded(NET, find_runs(NET, 2))
    assert [(layer.name, layer.repeat) for layer in small.layers] == [
        ("stem", 1), ("0.up", 5), ("0.down", 5), ("0.add", 5), ("head", 1)
    ]  # fmt: skip
    assert {(edge.source, edge.target, edge.fusible) for edge in small.edges} == {
        ("stem", "0.up", False),
        ("0.up", "0.down", True),
        ("0.down", "0.add", True),
        ("stem", "0.add", False),
        ("0.add", "head", False),
    }


def test_blocks_are_cut_where_the_fewest_tensors_cross():
    """The sum of the block before is like the others, but a block that begins with a sum takes two tensors over."""
    early = Layer("early", "add", Dims(N=4, K=8), (Input("stem", "addend"), Input(None, "addend")))
    net = Workload("net", (STEM, early, *residual(5, "early")))
    (run,) = find_runs(net, 2)
    assert net.layers[run.start].name == "0.up"


def test_a_block_that_others_read_from_afar_ends_its_run():
    net = Workload("net", (STEM, *residual(6), linear("side", "2.add", k=3)))
    assert find_runs(net, 2) == [Run(1, 3, 3), Run(10, 3, 3)]


def test_blocks_that_differ_in_anything_are_not_folded():
    layers = residual(4)
    for change in ({"epilogue": ("relu",)}, {"dims": Dims(N=2, K=16, C=16)}, {"repeat": 2}):
        changed = replace(layers[6], inputs=(Input(None),), **change)
        others = [replace(layers[7], inputs=(Input(None),))]
        net = Workload("net", (STEM, *layers[:6], changed, *others, *layers[8:]))
        assert all(run.count < 4 for run in find_runs(net, 2))


def test_a_block_that_reads_beyond_the_one_before_is_not_folded():
    """Every sum reads the block before the last one."""
    layers = [
        layer if layer.is_mac or i < 6 else replace(layer, inputs=(layer.inputs[0], Input(layers_before(i), "addend")))
        for i, layer in enumerate(residual(6))
    ]
    assert all(run.count < 4 for run in find_runs(Workload("net", (STEM, *layers)), 2))


def layers_before(place: int) -> str:
    return f"{place // 3 - 2}.add"


def test_what_all_blocks_read_may_come_from_outside():
    layers = [
        replace(layer, inputs=(layer.inputs[0], Input("stem", "weight", fusible=False)))
        if "up" in layer.name
        else layer
        for layer in residual(4)
    ]
    net = Workload("net", (STEM, *layers))
    small = folded(net, find_runs(net, 2))
    assert small["0.up"].inputs[1] == Input("stem", "weight", fusible=False)
    assert len(small.layers) == 4


def test_runs_that_follow_each_other_are_not_fused_with_each_other():
    second = [
        replace(layer, name=f"b{layer.name}", dims=layer.dims._replace(N=4), epilogue=("relu",))
        for layer in residual(4, "3.add")
    ]
    inside = {layer.name.removeprefix("b") for layer in second}
    renamed = [
        replace(
            layer,
            inputs=tuple(
                replace(o, source=f"b{o.source}") if o.source in inside and i > 0 and o.source != "3.add" else o
                for o in layer.inputs
            ),
        )
        for i, layer in enumerate(second)
    ]
    net = Workload("net", (*residual(4, None), *renamed))
    small = folded(net, find_runs(net, 2))
    assert all(not edge.fusible for edge in small.edges if edge.source.startswith("b") != edge.target.startswith("b"))


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_a_folded_network_costs_the_same_without_fusion(name: str):
    machine = load_machine("gemmini-small")
    net = load_model(f"{name}:size=32")
    small = folded(net, find_runs(net, 2))
    assert len(small.layers) < len(net.layers)
    assert_same_totals(net, small, machine.name)


def assert_same_totals(net: Workload, small: Workload, machine: str) -> None:
    assert (small.macs, small.parameter_words) == (net.macs, net.parameter_words)
    before, after = (evaluate(greedy(one, load_machine(machine))) for one in (net, small))
    assert after.energy_pj == pytest.approx(before.energy_pj, rel=1e-12)
    assert after.cycles == pytest.approx(before.cycles, rel=1e-12)
    assert after.edp_uj_cycles == pytest.approx(before.edp_uj_cycles, rel=1e-12)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 3)), min_size=1, max_size=30), st.integers(2, 4))
def test_totals_and_reachability_survive_any_folding(shape: list[tuple[int, int]], least: int):
    """Random chains with shortcuts: layers of two kinds, each reading one of the layers before it as well."""
    layers = [STEM]
    for i, (repeat, back) in enumerate(shape):
        one, other = layers[-1].name, layers[max(0, i - back)].name
        inputs = (Input(one, "addend"), Input(other, "addend"))
        layers.append(Layer(f"{i}", "add", Dims(N=4, K=8), inputs, repeat=repeat))
    net = Workload("net", tuple(layers))
    runs = find_runs(net, least)
    small = folded(net, runs)
    assert sum(layer.repeat for layer in small.layers) == sum(layer.repeat for layer in net.layers)
    assert all(run.count >= least for run in runs)
    assert all(one.stop <= other.start for one, other in pairwise(runs))
    assert all(small[edge.source].repeat == small[edge.target].repeat for edge in small.edges if edge.fusible) or any(
        net[edge.source].repeat != net[edge.target].repeat for edge in net.edges
    )
