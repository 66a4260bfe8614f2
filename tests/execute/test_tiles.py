import pytest

from execute.builders import dims, order
from fadiff.execute.loader import Loader, split_runs
from fadiff.execute.tiles import chunk_bounds, chunk_count, weight_sequence


@pytest.mark.parametrize(
    ("loops", "trips", "changes", "returns"),
    [
        ("", "", 0, True),
        ("N", "N8", 0, True),
        ("NC", "N8 C2", 15, False),
        ("CN", "N8 C2", 1, False),
        ("KNC", "K3 N2 C2", 11, False),
        ("RPS", "R3 P4 S3", 35, False),
        ("NP", "N4 P4", 0, True),
    ],
)
def test_weights_change_whenever_a_loop_over_them_moves(loops, trips, changes, returns):
    assert weight_sequence(order(loops), dims(trips)) == (changes, returns)


def test_a_taller_block_has_taller_chunks_not_more():
    assert chunk_count(10, 2, 4) == 4
    assert chunk_bounds(10, 4) == [0, 2, 5, 7, 10]


def test_a_shorter_block_has_fewer_chunks():
    assert chunk_count(3, 2, 4) == 2


def test_a_tile_takes_all_rows_from_first_to_last():
    assert Loader(outputs=2, kernel=1, stride=3, dilation=1, slides=1).runs(6, 4) == [(6, 10)]


def test_a_taller_tile_leaves_out_what_two_tiles_would():
    assert Loader(outputs=2, kernel=1, stride=3, dilation=1, slides=1).runs(6, 7) == [(6, 10), (12, 13)]


def test_a_taller_tile_takes_what_a_sliding_window_needs_next():
    assert Loader(outputs=3, kernel=1, stride=2, dilation=1, slides=3).runs(0, 7) == [(0, 7)]


def test_a_window_that_moves_keeps_what_it_still_covers():
    assert split_runs([(2, 8)], [(0, 6)]) == ([(2, 6)], [(6, 8)])
    assert split_runs([(6, 8)], [(0, 6)]) == ([], [(6, 8)])
    assert split_runs([(1, 4), (7, 10)], [(0, 3), (6, 9)]) == ([(1, 3), (7, 9)], [(3, 4), (9, 10)])
