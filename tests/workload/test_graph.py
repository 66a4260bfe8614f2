"""Layers and graphs: what can be built holds together, and what cannot says why in one sentence."""

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff.workload import Dims, Edge, Input, Layer, Workload, WorkloadError
from fadiff.workload.layer import Port

some = settings(deadline=None, max_examples=60)


def mac(name: str, *sources: str | None, dims: Dims = Dims(K=8, C=8, P=4, Q=4), **more: Any) -> Layer:
    return Layer(name, "mac", dims, tuple(Input(source) for source in sources or (None,)), **more)


def add(name: str, *sources: str | None, dims: Dims = Dims(K=8, P=4, Q=4), **more: Any) -> Layer:
    return Layer(name, "add", dims, tuple(Input(source, "addend") for source in sources), **more)


def part(name: str, source: str, port: Port = "input", dims: Dims = Dims(K=8, C=8, P=4, Q=4)) -> Layer:
    """A layer that reads something of another one's output which cannot be fused."""
    rest = () if port == "input" else (Input(None),)
    return Layer(name, "mac", dims, (*rest, Input(source, port, fusible=False)))


def padded(pad: tuple[int, int], stride: int = 1, **sizes: int) -> Layer:
    """A 3x3 convolution b of the 4x4 image of a; "same", but for the sizes given."""
    dims = Dims(K=8, C=8, P=4, Q=4, R=3, S=3)._replace(**sizes)
    return mac("b", "a", dims=dims, stride=(stride, 1), pad=pad)


def attention(name: str, weight: str, dims: Dims) -> Layer:
    return Layer(name, "mac", dims, (Input(None), Input(weight, "weight")))


# --- a layer by itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "layer '': give every layer a name of printable characters"),
        ({"name": "a\nb"}, r"layer 'a\nb': give every layer a name of printable characters"),
        ({"name": "\ud800"}, "printable characters"),
        ({"kind": "conv"}, "layer 'a': kind 'conv' is unknown: use one of mac, add"),
        ({"dims": Dims(K=0)}, "layer 'a': dimension K is 0: it is at least 1"),
        ({"dims": Dims(Q=-3)}, "dimension Q is -3: it is at least 1"),
        ({"dims": Dims(N=2**31)}, "dimension N is too large: it is at most 2147483647"),
        ({"dims": Dims(N=10**5000)}, "dimension N is too large"),
        ({"dims": Dims(N=2**30, K=2**30)}, "more than 2^53 MACs, or words in one tensor (1.15e+18 MACs)"),
        ({"dims": Dims(P=2**28, Q=2**28), "epilogue": ("global_pool",), "out": (1, 1)}, "more than 2^53 MACs"),
        ({"dims": Dims(P=2, Q=2), "stride": (2**30, 2**30)}, "more than 2^53 MACs, or words in one tensor (4 MACs)"),
        ({"epilogue": ("upsample",), "out": (2**27, 2**27)}, "more than 2^53 MACs, or words in one tensor"),
        ({"stride": (0, 1)}, "stride of rows is 0: it is at least 1"),
        ({"stride": (1, -1)}, "stride of columns is -1: it is at least 1"),
        ({"dilation": (1, 0)}, "dilation of columns is 0: it is at least 1"),
        ({"out": (0, 4), "epilogue": ("max_pool",)}, "out of rows is 0: it is at least 1"),
        ({"repeat": 0}, "repeat is 0: it is at least 1"),
        ({"repeat": 2**31}, "repeat is too large"),
        ({"epilogue": ("swish",)}, "epilogue 'swish' is unknown: use one of bias, batch_norm, relu"),
        ({"out": (2, 2)}, "out is [2, 2] but no operator of its epilogue changes 4x4"),
        ({"out": (2, 2), "epilogue": ("relu", "flatten")}, "out is [2, 2] but no operator of its epilogue changes 4x4"),
        ({"out": (2, 2), "epilogue": ("reshape",)}, "reshape keeps the number of words: out [2, 2] has not the size"),
        ({"epilogue": ("global_pool",)}, "global_pool leaves one row and column: say out P=1, Q=1 (it is [4, 4])"),
        ({"pad": (-1, 0)}, "pad of rows is -1: it is at least 0"),
        ({"pad": (0, 1)}, "pad of columns is more than its kernel reaches, (R-1)*dilation = 0: give no more than that"),
        ({"dims": Dims(K=8, C=8, P=4, Q=4, R=3), "pad": (3, 0)}, "pad of rows is more than its kernel reaches"),
        ({"dims": Dims(P=4, R=3), "dilation": (2, 1), "pad": (10**5000, 0)}, "(R-1)*dilation = 4: give no more"),
        ({"inputs": ()}, "a mac layer needs an operand on its input port"),
        ({"inputs": (Input(None, "weight"),)}, "a mac layer needs an operand on its input port"),
        ({"inputs": (Input(None), Input(None, "weight"), Input("b", "weight"))}, "2 operands are on the weight port"),
        ({"inputs": (Input(None), Input(None, "addend"))}, "a mac layer has no addend port"),
        ({"inputs": (Input(None, fusible=False),)}, "a network input is never fused: leave fusible away"),
        ({"inputs": (Input(None), Input(None, "bias"))}, "port 'bias' is unknown: use one of input, weight, addend"),
    ],
)
def test_a_bad_layer_is_told_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        replace(mac("a"), **changes)
    assert message in str(error.value)
    assert str(error.value).startswith("layer ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": (Input(None, "addend"),)}, "an add layer needs two or more operands, all on the addend port"),
        ({"inputs": (Input(None, "addend"), Input(None))}, "all on the addend port"),
        ({"inputs": ()}, "an add layer needs two or more operands"),
        ({"dims": Dims(K=8, C=8)}, "an add layer has no dimension C (it is 8): it runs over N, K, P, Q"),
        ({"dims": Dims(G=2, K=8)}, "an add layer has no dimension G (it is 2)"),
        ({"stride": (2, 2)}, "an add layer has no stride or dilation"),
        ({"dilation": (1, 2)}, "an add layer has no stride or dilation"),
        ({"pad": (0, 0)}, "an add layer has no padding: leave pad away"),
    ],
)
def test_a_bad_add_layer_is_told_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        replace(add("s", None, None), **changes)
    assert message in str(error.value)


def test_sizes_of_a_convolution() -> None:
    layer = mac("a", dims=Dims(2, 3, 4, 5, 6, 7, 3, 2), stride=(2, 3), dilation=(2, 1))
    assert layer.macs == 2 * 3 * 4 * 5 * 6 * 7 * 3 * 2
    assert (layer.input_rows, layer.input_cols) == (5 * 2 + 2 * 2 + 1, 6 * 3 + 1 + 1)
    assert layer.weight_words == 2 * 4 * 5 * 3 * 2
    assert layer.input_words == 2 * 3 * 5 * 15 * 20
    assert layer.output_words == layer.stored_words == 2 * 3 * 4 * 6 * 7
    assert layer.channels == 8


@pytest.mark.parametrize(
    ("kernel", "stride", "rows", "stored", "pad"),
    [
        pytest.param(3, 1, 8, 8, 1, id="same"),
        pytest.param(3, 1, 6, 8, 0, id="valid"),
        pytest.param(3, 1, 10, 8, 1, id="full: half of the reach, though it is really all of it"),
        pytest.param(3, 2, 4, 8, 1, id="an even map, halved"),
        pytest.param(3, 2, 5, 9, 1, id="an odd map, halved"),
        pytest.param(1, 2, 4, 8, 0, id="a kernel of one tap"),
        pytest.param(5, 1, 7, 8, 2, id="no more than half of the reach"),
        pytest.param(5, 1, 5, 8, 1, id="no more than is missing"),
    ],
)
def test_padding_that_is_not_said_is_half_of_the_reach_as_far_as_rows_are_missing(
    kernel: int, stride: int, rows: int, stored: int, pad: int
) -> None:
    layer = mac("a", dims=Dims(P=rows, Q=rows, R=kernel, S=kernel), stride=(stride, stride))
    assert (layer.pad_before(0, stored), layer.pad_before(1, stored)) == (pad, pad)


def test_padding_that_is_said_is_what_counts() -> None:
    layer = mac("a", dims=Dims(P=8, Q=8, R=3, S=3), pad=(2, 0))
    assert (layer.pad_before(0, 8), layer.pad_before(1, 8)) == (2, 0)


def test_pooling_changes_what_is_stored_and_not_what_is_computed() -> None:
    layer = mac("a", epilogue=("relu", "max_pool"), out=(2, 2))
    assert (layer.output_words, layer.stored_words) == (8 * 16, 8 * 4)


def test_a_sum_has_neither_macs_nor_weights() -> None:
    layer = add("s", None, None)
    assert (layer.macs, layer.weight_words, layer.input_words, layer.output_words) == (0, 0, 0, 128)


# --- a graph ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "workload 'net' has no layers: give it at least one"),
        ([mac("a"), mac("a")], "two layers are named 'a': layer names must be unique"),
        ([mac("a", "b")], "layer 'a' reads from 'b', which is not a layer: name a layer of this workload, or null"),
        ([mac("a", "a")], "the graph has a cycle, a -> a: remove one of its edges"),
        ([mac("a", "c"), mac("b", "a"), mac("c", "b")], "the graph has a cycle, a -> b -> c -> a"),
        ([mac("a", "b"), mac("b", "a"), mac("z", "b")], "the graph has a cycle, a -> b -> a"),
        ([part("a", "z")], "layer 'a' reads from 'z', which is not a layer"),
        ([part("a", "b"), mac("b", "a")], "the graph has a cycle, a -> b -> a"),
    ],
)
def test_a_bad_graph_is_told_in_one_sentence(layers: list[Layer], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        Workload("net", tuple(layers))
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["", "a\tb", "\x00"])
def test_a_graph_needs_a_name(name: str) -> None:
    with pytest.raises(WorkloadError, match="give it a name of printable characters"):
        Workload(name, (mac("a"),))


MATRIX = Dims(N=6, K=8, C=8)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        # input port
        ([mac("a"), mac("b", "a", dims=Dims(K=8, C=9, P=4, Q=4))], "'a' -> 'b' (input): 8 channels arrive, G*C is 9"),
        ([mac("a"), mac("b", "a", dims=Dims(N=2, K=8, C=8, P=4, Q=4))], "N is 1 before and 2 after: add a reshape"),
        ([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=5, Q=4))], "4 rows arrive, the layer reads 5 (stride 1"),
        ([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=4, Q=3))], "4 columns arrive, the layer reads 3 (stride 1"),
        ([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=3, Q=2), stride=(2, 2))], "4 rows arrive, the layer reads 5"),
        (
            [mac("a", epilogue=("max_pool",), out=(2, 2)), mac("b", "a")],
            "'a' -> 'b' (input): 2 rows arrive, the layer reads 4",
        ),
        ([mac("a", epilogue=("flatten",)), mac("b", "a", dims=Dims(K=8, C=8))], "128 channels arrive, G*C is 8"),
        (
            [mac("a", dims=MATRIX, epilogue=("reshape",)), mac("b", "a", dims=Dims(G=2, N=6, K=8, C=8))],
            "'a' -> 'b' (input): 48 words arrive, the input holds 96",
        ),
        # padding that is said: 4 rows are stored
        ([mac("a"), padded((0, 1), P=7)], "4 rows arrive, the layer reads 9 (stride 1, 0 of padding before them incl"),
        ([mac("a"), padded((2, 1), P=3)], "4 rows arrive, the layer reads 5 (stride 1, 2 of padding before them incl"),
        ([mac("a"), padded((1, 2), Q=3)], "4 columns arrive, the layer reads 5 (stride 1, 2 of padding before them"),
        ([mac("a"), padded((2, 1), P=1, stride=2)], "4 rows arrive, the layer reads 3 (stride 2, 2 of padding before"),
        # concatenation
        (
            [mac("a"), mac("b"), mac("c", "a", "b", dims=Dims(K=8, C=17, P=4, Q=4))],
            "the inputs of 'c' bring 16 channels, its G*C is 17: the two must be equal, and no input empty",
        ),
        (
            [mac("a"), mac("c", "a", None, dims=Dims(K=8, C=8, P=4, Q=4))],
            "the inputs of 'c' bring 8 channels, its G*C is 8: the two must be equal, and no input empty",
        ),
        (
            [mac("a"), mac("c", "a", None, None, dims=Dims(K=8, C=9, P=4, Q=4))],
            "the inputs of 'c' bring 9 channels, its G*C is 9: the two must be equal, and no input empty",
        ),
        (
            [mac("a"), mac("b", dims=Dims(K=8, C=8, P=6, Q=4)), mac("c", "a", "b", dims=Dims(K=8, C=16, P=4, Q=4))],
            "'b' -> 'c' (input): 6 rows arrive, the layer reads 4",
        ),
        # weight port
        (
            [mac("k", dims=MATRIX), attention("qk", "k", Dims(N=6, K=6, C=9))],
            "'k' -> 'qk' (weight): 48 words arrive, the weights are 54",
        ),
        # addends
        (
            [mac("a"), add("s", "a", None, dims=Dims(K=8, P=4, Q=5))],
            "'a' -> 's' (addend): the addend is N,K,P,Q = (1, 8, 4, 4), the sum (1, 8, 4, 5)",
        ),
        ([mac("a"), add("s", None, "a", dims=Dims(N=2, K=8, P=4, Q=4))], "the sum (2, 8, 4, 4)"),
        (
            [mac("a", epilogue=("global_pool",), out=(1, 1)), add("s", "a", None)],
            "the addend is N,K,P,Q = (1, 8, 1, 1), the sum (1, 8, 4, 4)",
        ),
        ([mac("a", epilogue=("transpose",)), add("s", "a", None, dims=Dims(K=9, P=4, Q=4))], "the sum (1, 9, 4, 4)"),
    ],
)
def test_shapes_that_disagree_are_told_with_their_edge(layers: list[Layer], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        Workload("net", tuple(layers))
    assert message in str(error.value)
    assert str(error.value).startswith("shapes: ")


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=2, Q=2, R=3, S=3))], id="valid convolution"),
        pytest.param([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=4, Q=4, R=3, S=3))], id="same convolution"),
        pytest.param([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=6, Q=6, R=3, S=3))], id="full convolution"),
        pytest.param([mac("a"), mac("b", "a", dims=Dims(K=8, C=8, P=2, Q=2), stride=(2, 2))], id="strided 1x1"),
        pytest.param([mac("a"), padded((1, 1))], id="same, said"),
        pytest.param([mac("a"), padded((2, 0))], id="padded on one side: causal rows, columns ahead"),
        pytest.param([mac("a"), padded((0, 2), P=2, Q=6)], id="valid rows, full columns, said"),
        pytest.param([mac("a"), padded((1, 1), P=2, stride=2)], id="the stride skips no row"),
        pytest.param([mac("a"), padded((0, 1), P=1, stride=2)], id="the stride skips the last row"),
        pytest.param(
            [mac("a", epilogue=("reshape",)), mac("b", "a", dims=Dims(K=8, C=128), pad=(0, 0))], id="said of a product"
        ),
        pytest.param([mac("a"), mac("b", "a", dims=Dims(G=8, P=4, Q=4, R=3, S=3))], id="depthwise"),
        pytest.param([mac("a", epilogue=("flatten",)), mac("b", "a", dims=Dims(K=8, C=128))], id="flatten, linear"),
        pytest.param(
            [mac("a", epilogue=("flatten",)), add("s", "a", None, dims=Dims(K=128))], id="a sum of flattened images"
        ),
        pytest.param([mac("a", epilogue=("upsample",), out=(8, 8)), add("s", "a", "a", dims=Dims(K=8, P=8, Q=8))]),
        pytest.param([mac("a", epilogue=("reshape",), out=(2, 8)), add("s", "a", None, dims=Dims(K=8, P=2, Q=8))]),
        pytest.param([mac("a", dims=MATRIX, epilogue=("transpose",)), attention("b", "a", Dims(N=6, K=6, C=8))]),
        pytest.param(
            [mac("a", dims=MATRIX, epilogue=("reshape",)), mac("b", "a", dims=Dims(G=2, N=6, K=4, C=4))], id="heads"
        ),
    ],
)
def test_shapes_that_agree_are_accepted(layers: list[Layer]) -> None:
    assert Workload("net", tuple(layers)).topological == tuple(layer.name for layer in layers)


def test_concatenation_lays_channels_end_to_end() -> None:
    wide = mac("wide", dims=Dims(K=24, C=8, P=4, Q=4))
    last = mac("last", "wide", None, "thin", dims=Dims(K=8, C=40, P=4, Q=4))
    net = Workload("net", (wide, mac("thin"), last))
    assert net.edges == (Edge("wide", "last", "input", 24), Edge("thin", "last", "input", 8))


@pytest.mark.parametrize("dims", [Dims(K=3, C=5, P=9, Q=2), Dims(G=7, N=4, K=2, C=100), Dims()])
@pytest.mark.parametrize("port", ["input", "weight"])
def test_shapes_need_not_agree_along_an_edge_that_cannot_be_fused(dims: Dims, port: Port) -> None:
    net = Workload("net", (mac("a"), part("b", "a", port, dims)))
    assert net.edges == (Edge("a", "b", port, dims.G * dims.C if port == "input" else 0, fusible=False),)
    assert net.topological == ("a", "b")
    sizes = Dims(N=dims.N, K=dims.K, P=dims.P, Q=dims.Q)
    addends = (Input("a", "addend", fusible=False), Input(None, "addend"))
    assert Workload("net", (mac("a"), Layer("s", "add", sizes, addends))).producers["s"][0].fusible is False


def test_padding_of_what_cannot_be_fused_and_of_network_inputs_keeps_within_the_kernel_only() -> None:
    dims = Dims(K=3, C=5, P=9, Q=2, R=3, S=3)
    for operand in (Input("a", fusible=False), Input(None)):
        layer = Layer("b", "mac", dims, (operand,), pad=(2, 0))
        assert Workload("net", (mac("a"), layer))["b"].pad == (2, 0)
        with pytest.raises(WorkloadError, match="pad of rows is more than its kernel reaches"):
            replace(layer, pad=(3, 0))


def test_what_cannot_be_fused_takes_the_channels_that_the_others_leave() -> None:
    """In equal shares with network inputs, the last one the remainder too."""
    inputs = (Input("a", fusible=False), Input("b"), Input(None), Input("a", fusible=False))
    last = Layer("last", "mac", Dims(K=8, C=19, P=4, Q=4), inputs)
    net = Workload("net", (mac("a", dims=Dims(K=50, C=8)), mac("b"), last))
    assert net.input_channels(last) == (3, 8, 3, 5)
    assert [edge.channels for edge in net.edges] == [3, 8, 5]
    assert [edge.fusible for edge in net.edges] == [False, True, False]


def test_a_fusible_operand_beside_one_that_is_not_must_still_agree() -> None:
    last = Layer("last", "mac", Dims(K=8, C=20, P=5, Q=4), (Input("a", fusible=False), Input("b")))
    with pytest.raises(WorkloadError, match="4 rows arrive, the layer reads 5"):
        Workload("net", (mac("a"), mac("b"), last))


def test_edges_are_known_from_both_ends() -> None:
    net = Workload("net", (mac("a"), mac("b", "a"), add("s", "b", "a")))
    assert net.edges == (Edge("a", "b", "input", 8), Edge("b", "s", "addend", 0), Edge("a", "s", "addend", 0))
    assert net.consumers == {"a": (net.edges[0], net.edges[2]), "b": (net.edges[1],), "s": ()}
    assert net.producers == {"a": (), "b": (net.edges[0],), "s": net.edges[1:]}
    assert "a" in net
    assert "z" not in net
    assert net["b"].name == "b"


def test_totals_count_repeats_and_leave_activations_out_of_the_parameters() -> None:
    net = Workload("net", (mac("k", dims=MATRIX, repeat=3), attention("qk", "k", Dims(N=6, K=6, C=8))))
    assert net.macs == 3 * 6 * 8 * 8 + 6 * 6 * 8
    assert net.parameter_words == 3 * 64


def test_equal_networks_have_equal_hashes() -> None:
    assert hash(Workload("net", (mac("a"),))) == hash(Workload("net", (mac("a"),)))


# --- properties -------------------------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> tuple[Layer, ...]:
    """Convolutions one after the other, each with a kernel, stride and pooling of its own choice."""
    layers: list[Layer] = []
    source, channels, side, batch = None, draw(st.integers(1, 8)), draw(st.integers(1, 40)), draw(st.integers(1, 3))
    for i in range(draw(st.integers(1, 8))):
        kernel, stride, k = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
        rows = -(-side // stride)
        pooled = draw(st.none() | st.integers(1, rows))
        more: dict[str, Any] = {} if pooled is None else {"epilogue": ("avg_pool",), "out": (pooled, pooled)}
        dims = Dims(N=batch, K=k, C=channels, P=rows, Q=rows, R=kernel, S=kernel)
        layers.append(mac(f"c{i}", source, dims=dims, stride=(stride, stride), **more))
        source, channels, side = f"c{i}", k, rows if pooled is None else pooled
    return tuple(layers)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Layer, ...]:
    """Matrix products and sums over one shape, each reading any of those before it."""
    layers: list[Layer] = []
    for i in range(draw(st.integers(1, 12))):
        sources = st.sampled_from([None, *(layer.name for layer in layers)])
        if draw(st.booleans()):
            layers.append(mac(f"m{i}", draw(sources), dims=MATRIX))
        else:
            layers.append(add(f"s{i}", draw(sources), draw(sources), dims=Dims(N=6, K=8)))
    return tuple(layers)


def is_topological(net: Workload) -> bool:
    place = {name: i for i, name in enumerate(net.topological)}
    return len(place) == len(net.layers) and all(place[edge.source] < place[edge.target] for edge in net.edges)


@some
@given(chains())
def test_chains_build_and_come_in_their_order(layers: tuple[Layer, ...]) -> None:
    net = Workload("chain", layers)
    assert net.topological == tuple(layer.name for layer in layers)
    assert net.macs == sum(layer.macs for layer in layers)
    for edge in net.edges:
        assert edge.channels == net[edge.target].dims.C == net[edge.source].channels


@some
@given(graphs(), st.randoms(use_true_random=False))
def test_any_order_of_the_layers_gives_the_same_network(layers: tuple[Layer, ...], random: Random) -> None:
    shuffled = list(layers)
    random.shuffle(shuffled)
    net, other = Workload("net", layers), Workload("net", tuple(shuffled))
    assert is_topological(net)
    assert is_topological(other)
    assert net.topological == tuple(layer.name for layer in layers)
    assert set(net.edges) == set(other.edges)
    assert net.macs == other.macs


@some
@given(graphs(), st.data())
def test_an_edge_back_to_an_ancestor_is_a_cycle(layers: tuple[Layer, ...], data: st.DataObject) -> None:
    net = Workload("net", layers)
    target = data.draw(st.sampled_from(net.topological))
    below = {target}
    for name in net.topological:
        if any(edge.source in below for edge in net.producers[name]):
            below.add(name)
    source = data.draw(st.sampled_from(sorted(below)))
    port = "input" if net[target].is_mac else "addend"
    closed = replace(net[target], inputs=(*net[target].inputs, Input(source, port)))
    with pytest.raises(WorkloadError, match="the graph has a cycle") as error:
        Workload("net", tuple(closed if layer.name == target else layer for layer in layers))
    told = str(error.value).removeprefix("the graph has a cycle, ").partition(":")[0].split(" -> ")
    assert told[0] == told[-1]
    edges = {(edge.source, edge.target) for edge in net.edges} | {(source, target)}
    assert all(step in edges for step in pairwise(told))


@some
@given(chains(), st.data())
def test_a_wrong_channel_count_is_always_found(layers: tuple[Layer, ...], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(layers) - 1))
    changed = replace(layers[at], dims=layers[at].dims._replace(C=layers[at].dims.C + data.draw(st.integers(1, 3))))
    broken = (*layers[:at], changed, *layers[at + 1 :])
    if at == 0:
        assert Workload("chain", broken)["c0"] == changed  # a network input is whatever the first layer reads
    else:
        with pytest.raises(WorkloadError, match="channels arrive"):
            Workload("chain", broken)
