import numpy as np

from execute.builders import add, group, mac
from fadiff.execute.buffers import ABSENT, Buffer, Shared
from fadiff.execute.walk import Walk, sweep
from fadiff.workload import Workload


def chain(*layers):
    return Workload("chain", layers)


CONVS = chain(
    mac("a", "K2 C2 P12 Q6 R3 S3"),
    mac("b", "K2 C2 P12 Q6 R3 S3", "a"),
    mac("c", "K2 C2 P12 Q6 R3 S3", "b"),
)


def test_each_producer_leads_by_one_halo_more():
    rows = sweep(CONVS, group("a b c", "P4"), 0)
    assert rows.computed == {"c": (3, 6, 9, 12), "b": (4, 7, 10, 12), "a": (5, 8, 11, 12)}


def test_leads_may_be_computed_before_the_first_iteration():
    rows = sweep(CONVS, group("a b c", "P4"), 0, frozenset({"a", "b"}))
    assert rows.first == -1
    assert rows.computed == {"c": (0, 3, 6, 9, 12), "b": (1, 4, 7, 10, 12), "a": (2, 5, 8, 11, 12)}


def test_a_long_lead_takes_several_iterations_of_its_own():
    wide = chain(mac("a", "P8"), mac("b", "P8 R7", "a"))
    rows = sweep(wide, group("a b", "P8"), 0, frozenset({"a"}))
    assert rows.first == -3
    assert rows.computed["a"] == (1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8)


def test_only_the_layers_that_must_go_ahead():
    rows = sweep(CONVS, group("a b c", "P4"), 0, frozenset({"a"}))
    assert rows.computed["a"] == (2, 5, 8, 11, 12)
    assert rows.computed["b"] == (0, 4, 7, 10, 12)


def test_a_stride_asks_for_twice_the_rows():
    strided = chain(mac("a", "P12"), mac("b", "P6 R3", "a", stride=(2, 1)))
    assert sweep(strided, group("a b", "P3"), 0).computed["a"] == (4, 8, 12)


def test_pooled_rows_are_counted_after_the_pool():
    pooled = chain(mac("a", "P12", epilogue=("max_pool",), out=(6, 1)), mac("b", "P6 R3", "a"))
    rows = sweep(pooled, group("a b", "P3"), 0)
    assert rows.stored["a"] == (3, 5, 6)
    assert rows.computed["a"] == (6, 10, 12)


def test_a_residual_leads_as_far_as_its_farthest_reader():
    block = chain(
        mac("a", "K1 C1 P8 R3"), mac("b", "K1 C1 P8 R3", "a"), add("s", "K1 P8", "a", "b"), mac("c", "K1 C1 P8 R5", "s")
    )
    assert sweep(block, group("a b s c", "P4"), 0).computed["a"] == (5, 7, 8, 8)


def live_cells(walk, buffer, source):
    """Live cells while its readers run, iteration by iteration."""
    found = []
    for at in walk.iterations:
        buffer.reserve(at, *walk.stored_block(source, at))
        found.append(buffer.cells)
        buffer.release(at, walk.cells_wanted(source, at))
    return found


def test_a_row_buffer_holds_the_window_of_its_reader():
    pair = chain(mac("a", "P12 Q6"), mac("b", "P12 Q6 R3 S3", "a"))
    shared = group("a b", "P4")
    walk = Walk(pair, shared, sweep(pair, shared, 0), sweep(pair, shared, 1))
    cells = live_cells(walk, Buffer((1, 1, 1, 12, 6)), "a")
    assert cells == [4 * 6, 5 * 6, 5 * 6, 4 * 6]


def test_a_tile_buffer_keeps_a_line_over_all_columns():
    pair = chain(mac("a", "P12 Q6"), mac("b", "P12 Q6 R3 S3", "a"))
    shared = group("a b", "P4 Q3")
    walk = Walk(pair, shared, sweep(pair, shared, 0), sweep(pair, shared, 1))
    cells = live_cells(walk, Buffer((1, 1, 1, 12, 6)), "a")
    # Window of 5 rows x 4 columns, and 2 rows of the 2 other columns.
    assert max(cells) == 5 * 4 + 2 * 2


def test_a_buffer_is_empty_at_the_end():
    shared = group("a b c", "P4 Q3")
    walk = Walk(CONVS, shared, sweep(CONVS, shared, 0), sweep(CONVS, shared, 1))
    buffer = Buffer((1, 1, 2, 12, 6))
    live_cells(walk, buffer, "a")
    assert (buffer.cells, buffer.size_bytes) == (0, 0)


def test_what_a_buffer_lets_go_cannot_be_read():
    buffer = Buffer((1, 1, 1, 4, 1))
    at = Shared(0, 0, 0, 0, 0)
    buffer.reserve(at, (0, 4), (0, 1))
    buffer.words(at)[...] = 7
    buffer.release(at, np.array([[False], [True], [True], [False]]))
    assert buffer.words(at).ravel().tolist() == [ABSENT, 7, 7, ABSENT]
    assert buffer.size_bytes == 2
