"""What stands in every memory while each layer runs, on layers whose numbers fit on the back of an envelope."""

from dataclasses import replace

import pytest

from examples import FILES, read_schedule
from fadiff.hardware import Bits
from fadiff.schedule import Group, Trips
from fadiff.schedule.rules import Examined, check_legal, held_parts
from fadiff.workload import Dims, Input, Layer
from schedule.toys import CORES, GEMMINI, ROW_STATIONARY, add, conv, mac, remapped, schedule


def held(given, layer, memory):
    """Bytes in a memory while a layer runs, by what they are."""
    check_legal(given)
    examined, machine = Examined(given), given.machine
    node = machine.number[memory]
    parts = held_parts(examined, layer, node)
    assert sum(parts.values()) == pytest.approx(float(examined.needs.total[node][examined.number[layer]]), rel=1e-12)
    return parts


def chain(machine=GEMMINI, **trips):
    """Two convolutions of eight rows, tiled by rows unless said otherwise."""
    layers = conv("a", P=8, R=3), conv("b", "a", P=8, R=3)
    return schedule(*layers, machine=machine, **(trips or {"P": 4}))


# Tiles of one layer.


def test_a_tile_of_i_is_a_box():
    layer = conv("a", P=8, Q=4, R=3, S=2, stride=(2, 1), dilation=(1, 3))
    given = remapped(schedule(layer), "a", DRAM={"P": 4}, accumulator={"P": 2})
    assert held(given, "a", "scratchpad") == {
        "weight tile of a": 2 * 2 * 3 * 2,
        "input tile of a": 2 * ((2 - 1) * 2 + 2 + 1) * (3 + 3 + 1),
    }
    assert held(given, "a", "accumulator") == {"output tile of a": 4 * 2 * 2 * 4}
    assert held(given, "a", "registers") == {"weight tile of a": 1}


def test_tiles_are_those_of_one_instance():
    given = remapped(schedule(conv("a", K=8)), "a", cols={"K": 8}, accumulator={"K": 1})
    assert held(given, "a", "accumulator") == {"output tile of a": 4 * 4 * 4}
    assert held(given, "a", "scratchpad")["weight tile of a"] == 8 * 2


def test_a_cut_tile_takes_no_more_than_its_dim():
    given = remapped(schedule(conv("a", P=7), machine=CORES), "a", DRAM={"P": 2}, cores={"P": 2}, acc={"P": 3})
    assert held(given, "a", "l2")["output tile of a"] == 2 * 6 * 4
    whole = remapped(given, "a", DRAM={"P": 1}, cores={"P": 2}, acc={"P": 4})
    assert held(whole, "a", "l2")["output tile of a"] == 2 * 7 * 4
    assert held(whole, "a", "acc")["output tile of a"] == 4 * 2 * 4 * 4


def test_a_keeper_of_outputs_holds_finished_ones_in_their_own_bits():
    """Sums that come back are as wide as sums, in every keeper but the first memory."""
    layer = conv("a", C=4)
    finished = remapped(schedule(layer, machine=CORES), "a", l2={"C": 2}, acc={"C": 2})
    assert held(finished, "a", "l2")["output tile of a"] == 2 * 4 * 4
    unfinished = remapped(finished, "a", {"l2": "CGNKPQRS"}, l2={"C": 2, "P": 2}, acc={"C": 2, "P": 2})
    assert held(unfinished, "a", "l2")["output tile of a"] == 4 * 2 * 4 * 4
    assert held(unfinished, "a", "l1")["output tile of a"] == 4 * 2 * 2 * 4
    split = remapped(schedule(layer, machine=CORES), "a", cores={"C": 2}, acc={"C": 2})
    assert held(split, "a", "l2")["output tile of a"] == 2 * 4 * 4
    assert held(split, "a", "l1")["output tile of a"] == 4 * 2 * 4 * 4


def test_a_finished_output_is_held_as_it_is_stored():
    pooled = schedule(conv("a", epilogue=("max_pool",), out=(2, 2)), machine=CORES)
    assert held(pooled, "a", "l2")["output tile of a"] == 2 * 2 * 2
    assert held(pooled, "a", "acc")["output tile of a"] == 4 * 2 * 4 * 4


def test_bytes_follow_from_the_bits_of_each_tensor():
    given = schedule(conv("a"), machine=replace(CORES, bits=Bits(W=4, I=12, O=16, sums=24)))
    assert held(given, "a", "l2") == {
        "weight tile of a": 4 * 0.5,
        "input tile of a": 2 * 16 * 1.5,
        "output tile of a": 2 * 16 * 2,
    }
    assert held(given, "a", "acc") == {"output tile of a": 2 * 16 * 3}
    assert held(given, "a", "reg") == {"weight tile of a": 0.5}


def test_a_sum_holds_nothing_of_its_own():
    given = schedule(conv("a"), add("s", "a", None, K=2, P=4, Q=4), machine=CORES)
    assert held(given, "s", "l2") == {"buffer of a": 2 * 16}
    assert held(given, "s", "l1") == held(given, "s", "acc") == {}


# Groups.


def test_weights_that_fit_whole_stay_for_the_whole_group():
    assert held(chain(), "b", "scratchpad") == {
        "weight tile of b": 12,
        "kept weight tile of a": 12,
        "kept input tile of a": 2 * 4 * 4,
        "buffer of a": 2 * 4 * 4,
    }


def test_a_tile_that_changes_within_a_shared_iteration_is_not_kept():
    """Nor a window that no longer slides, because a private loop turns inside the shared one."""
    given = remapped(chain(), "a", DRAM={"K": 2}, accumulator={"K": 1})
    assert held(given, "b", "scratchpad") == {"weight tile of b": 12, "buffer of a": 2 * 4 * 4}


def test_a_window_that_does_not_overlap_the_next_one_is_not_kept():
    layers = conv("a", P=8), conv("b", "a", P=8, R=3)
    assert "kept input tile of a" not in held(schedule(*layers, P=4), "b", "scratchpad")
    private = remapped(chain(), "a", DRAM={"Q": 2}, accumulator={"Q": 2})
    assert "kept input tile of a" not in held(private, "b", "scratchpad")


def test_an_input_that_no_shared_loop_changes_is_kept():
    """X makes channels of the producer: its input stays."""
    given = schedule(mac("u", N=4, K=8, C=2), mac("v", "u", N=4, K=2, C=8), X=4, loops="X")
    assert held(given, "v", "scratchpad") == {
        "weight tile of v": 4,
        "kept input tile of u": 8,
        "buffer of u": 4 * 2,
    }
    assert held(given, "u", "scratchpad") == {"weight tile of u": 4, "input tile of u": 8, "buffer of u": 4 * 2}


def test_weights_that_pass_by_the_memory_that_fuses_are_kept_in_their_own_home():
    given = chain(ROW_STATIONARY)
    assert held(given, "b", "glb") == {
        "output tile of b": 2 * 2 * 2 * 4,
        "kept input tile of a": 2 * 32,
        "buffer of a": 2 * 32,
    }
    assert held(given, "b", "wspad") == {"weight tile of b": 24, "kept weight tile of a": 24}
    assert held(given, "b", "ispad") == {"input tile of b": 2 * 32}


def test_nothing_is_kept_further_in_than_home():
    assert held(chain(CORES), "b", "l1") == {
        "weight tile of b": 12,
        "input tile of b": 2 * 4 * 4,
        "output tile of b": 2 * 2 * 4,
    }


@pytest.mark.parametrize(("first", "second"), [("a", None), (None, "a")])
def test_of_a_concatenation_only_the_unfused_share_is_a_tile(first, second):
    """One channel arrives from a, two from outside: of the three a third waits in its buffer."""
    reader = Layer("b", "mac", Dims(K=2, C=3, P=8, Q=4, R=3), (Input(first), Input(second)))
    given = schedule(conv("a", K=1, P=8), reader, P=4)
    assert held(given, "b", "scratchpad")["input tile of b"] == 2 * 4 * 4
    assert held(given, "a", "scratchpad") == {
        "weight tile of a": 2,
        "input tile of a": 2 * 2 * 4,
        "kept weight tile of b": 18,
        "kept input tile of b": 2 * 4 * 4,
        "buffer of a": 4 * 4,
    }


def test_a_share_of_channels_is_a_whole_number_of_bytes():
    """However the shares divide, rounding adds nothing: 3 of 7, of 11, of 13 channels."""
    for outside in (4, 8, 10):
        reader = Layer("b", "mac", Dims(K=1, C=3 + outside, P=2, Q=2), (Input("a"), Input(None)))
        given = schedule(conv("a", K=3, P=2, Q=2), reader)
        assert held(given, "b", "scratchpad")["input tile of b"] == outside * 4


def test_weights_on_an_edge_wait_in_a_buffer():
    given = schedule(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2))
    assert held(given, "qk", "scratchpad") == {"input tile of qk": 8, "buffer of k": 8}
    given = schedule(mac("k", N=4, K=2, C=2), mac("qk", None, "k", N=4, K=4, C=2), machine=ROW_STATIONARY)
    assert held(given, "qk", "glb") == {"input tile of qk": 16, "output tile of qk": 32, "buffer of k": 16}
    assert held(given, "qk", "wspad") == {"weight tile of qk": 16}


def test_a_fused_output_in_the_memory_that_fuses_is_its_buffer():
    given = chain(CORES)
    assert "output tile of a" not in held(given, "a", "l2")
    assert held(given, "a", "l2")["buffer of a"] == 2 * 4 * 4
    assert held(given, "b", "l2")["output tile of b"] == 2 * 2 * 4


def test_a_buffer_without_a_halo_is_live_from_its_producer_to_its_last_consumer():
    layers = conv("a"), conv("b", "a"), conv("c", "b"), add("s", "c", "a", K=2, P=4, Q=4)
    given = schedule(*layers, P=2)
    buffers = {name: [part for part in held(given, name, "scratchpad") if part.startswith("buffer")] for name in "abcs"}
    assert buffers == {
        "a": ["buffer of a"],
        "b": ["buffer of a", "buffer of b"],
        "c": ["buffer of a", "buffer of b", "buffer of c"],
        "s": ["buffer of a", "buffer of c"],
    }


def test_a_buffer_with_a_halo_is_live_at_every_step():
    layers = conv("a", P=8), conv("b", "a", P=8, R=3), conv("c", "b", P=8)
    tiled = schedule(*layers, P=4)
    assert held(tiled, "c", "scratchpad")["buffer of a"] == 2 * (2 + 2) * 4
    whole = schedule(*layers)
    assert "buffer of a" not in held(whole, "c", "scratchpad")
    assert held(whole, "b", "scratchpad")["buffer of a"] == 2 * 8 * 4


def test_line_buffers_of_two_dimensional_tiles_span_the_image():
    given = schedule(conv("a", P=8, Q=8), conv("b", "a", P=8, Q=8, R=3, S=3), P=4, Q=4)
    assert held(given, "a", "scratchpad")["buffer of a"] == 2 * ((2 + 2) * (2 + 2) + 2 * (8 - 4))


def test_halos_of_images_wait_for_their_next_turn():
    layers = conv("a", N=3, P=8), conv("b", "a", N=3, P=8, R=3)
    inside = schedule(*layers, P=4, N=3, loops="NPQG")
    outside = schedule(*layers, P=4, N=3, loops="PNQG")
    assert held(inside, "a", "scratchpad")["buffer of a"] == 2 * 4 * 4
    assert held(outside, "a", "scratchpad")["buffer of a"] == 2 * (4 * 4 + 2 * 2 * 4)


# The channel loop.


def ffn(machine, loops="NX"):
    return schedule(mac("u", N=4, K=8, C=2), mac("v", "u", N=4, K=2, C=8), machine=machine, N=2, X=4, loops=loops)


@pytest.mark.parametrize("machine", [GEMMINI, ROW_STATIONARY, CORES], ids=lambda machine: machine.name)
def test_sums_of_a_channel_loop_wait_in_the_outermost_of_their_keepers(machine):
    """Further in the producer uses the memory meanwhile."""
    keepers = [machine.nodes[node].name for node in machine.structure.keepers("O")[1:]]
    home, inner = keepers[0], keepers[1:]
    values = 2 * 2
    assert held(ffn(machine), "u", home)["waiting sums of v"] == values * 4
    for name in inner:
        assert "waiting sums of v" not in held(ffn(machine), "u", name)
    assert not any(part.startswith("waiting") for name in keepers for part in held(ffn(machine), "v", name))


def test_sums_that_leave_between_channel_iterations_do_not_wait():
    assert "waiting sums of v" not in held(ffn(GEMMINI, loops="XN"), "u", "accumulator")
    whole = schedule(mac("u", N=4, K=8, C=2), mac("v", "u", N=4, K=2, C=8), X=4, loops="XN")
    assert held(whole, "u", "accumulator")["waiting sums of v"] == 4 * 2 * 4


def test_sums_that_meet_in_the_home_of_outputs_are_wide_there():
    """Over the channel loop they are unfinished: the memory that fuses holds them as sums."""
    given = ffn(ROW_STATIONARY)
    assert held(given, "v", "glb")["output tile of v"] == 2 * 2 * 4
    assert held(schedule(mac("v", N=4, K=2, C=8), machine=ROW_STATIONARY, N=2), "v", "glb")["output tile of v"] == (
        2 * 2 * 2
    )


# Everything there is.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_byte_of_a_memory_is_told(path):
    given = read_schedule(path)[0]
    examined = Examined(given)
    for node, total in examined.needs.total.items():
        for group in given.groups:
            for name in group.layers:
                parts = held_parts(examined, name, node)
                assert sum(parts.values()) == pytest.approx(float(total[examined.number[name]]), rel=1e-12)
                assert all(size > 0 for size in parts.values())


def test_layers_of_different_groups_share_no_memory():
    layers = conv("a", P=8, R=3), conv("b", "a", P=8, R=3), conv("c", "b", P=8, R=3)
    given = schedule(*layers, groups=(Group(("a", "b"), Trips(P=1)), Group(("c",))))
    apart = schedule(conv("c", P=8, R=3))
    assert held(given, "c", "scratchpad") == held(apart, "c", "scratchpad")
