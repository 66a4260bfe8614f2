"""Layers on their own: each count worked out by hand."""

import pytest

from execute.builders import add, alone, group, mac, run, schedule, tiled

GEMM = mac("g", "N8 K8 C8")


def test_weights_stay_while_the_loop_over_rows_is_innermost():
    plan = alone(GEMM, tiled("C4 K4", "N4", "C2", "", "K2 N2", o3="KN"))
    counts = run(plan).counts["g"]
    assert counts.l3_weight == 64
    assert counts.l3_input == 2 * 64
    assert counts.l2_input_fill == 2 * 64


def test_inputs_stay_while_the_loop_over_outputs_is_innermost():
    plan = alone(GEMM, tiled("C4 K4", "N4", "C2", "", "K2 N2", o3="NK"))
    counts = run(plan).counts["g"]
    assert counts.l3_weight == 2 * 64
    assert counts.l3_input == 64


def test_sums_stay_while_the_loop_over_inputs_is_innermost():
    plan = alone(GEMM, tiled("C4 K4", "N4", "K2", "", "N2 C2", o3="NC"))
    counts = run(plan).counts["g"]
    assert (counts.l1_reload, counts.l3_spill) == (0, 0)
    assert counts.l1_drain == 64


def test_sums_spill_when_another_tile_comes_between():
    plan = alone(GEMM, tiled("C4 K4", "N4", "K2", "", "N2 C2", o3="CN"), spill_words=3)
    counts = run(plan).counts["g"]
    assert counts.l1_reload == 64
    assert counts.l3_spill == 2 * 3 * 64
    assert counts.l1_drain == 64 + 64
    updates = GEMM.macs // 4
    assert counts.l1 == 2 * updates - 64 + 128 + 64


def test_sums_spill_over_loops_of_l2_too():
    plan = alone(GEMM, tiled("C4 K4", "N4", "", "C2 K2", "N2", o2="CK"))
    assert run(plan).counts["g"].l1_reload == 64


def test_the_array_shares_a_word_among_its_columns():
    counts = run(alone(GEMM, tiled("C4 K4", "N4", "C2", "", "K2 N2", o3="KN"))).counts["g"]
    assert counts.l2_input_read == GEMM.macs // 4
    assert counts.l1_update == 2 * (GEMM.macs // 4) - 64
    assert counts.l0 == GEMM.macs + counts.l0_weight_fill


@pytest.mark.parametrize(
    ("mapping", "loads"),
    [
        # One PE array of weights is 16 words; W has 4 of them.
        (tiled("C4 K4", "N8", "C2 K2", o1="KC"), 4),
        (tiled("C4 K4", "N4", "C2 K2 N2", o1="KCN"), 4),
        (tiled("C4 K4", "N4", "C2 K2 N2", o1="NKC"), 8),
        (tiled("C4 K4", "N4", "C2", "K2", "N2"), 8),
        (tiled("C4 K4", "N4", "", "N2", "K2 C2", o3="KC"), 4),
    ],
)
def test_registers_load_only_when_other_weights_are_wanted(mapping, loads):
    assert run(alone(GEMM, mapping)).counts["g"].l0_weight_fill == loads * 16


def test_a_window_slides_down_and_loads_each_row_once():
    conv = mac("c", "K4 C4 P8 Q6 R3 S3")
    plan = alone(conv, tiled("C4 K4", "Q6", "R3 S3", "", "P8"))
    assert run(plan).counts["c"].l3_input == 4 * 10 * 8


def test_a_window_slides_sideways_within_each_row_of_tiles():
    conv = mac("c", "K4 C4 P8 Q6 R3 S3")
    plan = alone(conv, tiled("C4 K4", "P4 Q2", "R3 S3", "", "P2 Q3", o3="PQ"))
    assert run(plan).counts["c"].l3_input == 2 * 4 * (4 + 2) * 8


def test_no_window_slides_under_another_innermost_loop():
    conv = mac("c", "K8 C4 P8 Q6 R3 S3")
    plan = alone(conv, tiled("C4 K4", "Q6", "R3 S3", "", "P8 K2", o3="PK"))
    assert run(plan).counts["c"].l3_input == 8 * 4 * 3 * 8


def test_a_stride_moves_the_window_by_two_rows():
    conv = mac("c", "K4 C4 P4 Q4 R3 S3", stride=(2, 2))
    plan = alone(conv, tiled("C4 K4", "Q4", "R3 S3", "", "P4"))
    assert run(plan).counts["c"].l3_input == 4 * 9 * 9


def test_a_stride_wider_than_the_kernel_skips_rows_between_tiles():
    conv = mac("c", "K4 C4 P4 Q4", stride=(3, 1))
    plan = alone(conv, tiled("C4 K4", "Q4", "", "", "P4"))
    assert run(plan).counts["c"].l3_input == 4 * 4 * 4


def test_a_dilated_kernel_slides_by_its_dilation():
    conv = mac("c", "K4 C4 P6 Q4 R3", dilation=(2, 1))
    plan = alone(conv, tiled("C4 K4", "P6 Q4", "", "", "R3"))
    assert run(plan).counts["c"].l3_input == 4 * (6 + 2 + 2) * 4


def test_a_loop_outside_the_sliding_one_starts_each_sweep_anew():
    conv = mac("c", "K4 C4 P6 Q4 R3")
    plan = alone(conv, tiled("C4 K4", "P2 Q4", "", "", "P3 R3", o3="PR"))
    assert run(plan).counts["c"].l3_input == 3 * 4 * (2 + 1 + 1) * 4


def test_every_column_of_a_depthwise_layer_reads_its_own_input():
    conv = mac("d", "G8 P6 Q6 R3 S3")
    counts = run(alone(conv, tiled("G4", "P6 Q6", "R3 S3", "", "G2"))).counts["d"]
    assert counts.l2_input_read == conv.macs
    assert counts.l1_update == 2 * conv.macs - conv.output_words
    assert counts.l3_input == 8 * 8 * 8


def test_idle_columns_banks_cannot_be_borrowed():
    full = run(alone(GEMM, tiled("C4 K4", "N8", "C2", "K2"))).peaks[0].l1_bytes
    half = run(alone(GEMM, tiled("C4 K2", "N8", "C2", "K4"))).peaks[0].l1_bytes
    assert full == half == 4 * 8 * 4


def test_kernel_positions_may_unroll_over_array_rows():
    conv = mac("c", "K4 C2 P4 Q4 R2 S1")
    counts = run(alone(conv, tiled("C2 R2 K4", "P4 Q4"), spatial_rows=("C", "R", "S"))).counts["c"]
    assert counts.l1_update == 2 * conv.macs // 4 - conv.output_words
    assert counts.l0_weight_fill == 16


def test_padding_is_generated_not_fetched():
    layers = [mac("a", "K4 C4 P6 Q6"), mac("b", "K4 C4 P6 Q6 R3 S3", "a")]
    mapping = tiled("C4 K4", "P6 Q6")
    whole = tiled("C4 K4", "P6 Q6", "R3 S3")
    counts = run(schedule(layers, [group("a"), group("b")], {"a": mapping, "b": whole})).counts
    assert counts["b"].l3_input == 4 * 6 * 6


def test_rows_that_no_stride_reaches_are_not_fetched():
    layers = [mac("a", "K4 C4 P6 Q6"), mac("b", "K4 C4 P3 Q3", "a", stride=(2, 2))]
    mappings = {"a": tiled("C4 K4", "P6 Q6"), "b": tiled("C4 K4", "P3 Q3")}
    assert run(schedule(layers, [group("a"), group("b")], mappings)).counts["b"].l3_input == 4 * 5 * 5


def test_addends_stream_through_an_accumulator_of_any_size():
    plan = schedule([add("s", "N4 K6 P3 Q3", None, None, None)], [group("s")], {}, l1_bytes=40)
    counts = run(plan).counts["s"]
    assert counts.l3_input == counts.l1_addend == 3 * 4 * 6 * 9
    assert (counts.l2, counts.macs) == (0, 0)


def test_pooling_drains_all_sums_and_stores_few_words():
    conv = mac("c", "K4 C4 P8 Q8", epilogue=("relu", "max_pool"), out=(4, 4))
    counts = run(alone(conv, tiled("C4 K4", "Q2", "", "Q4", "P8"))).counts["c"]
    assert (counts.l1_drain, counts.l3_output) == (4 * 64, 4 * 16)


def test_shared_loops_of_a_layer_alone_are_its_outermost_loops():
    mapping = tiled("C4 K4", "N2", "C2", "", "N4 K2", o3="KN")
    shared = schedule([GEMM], [group("g", "N4")], {"g": mapping})
    private = schedule([GEMM], [group("g")], {"g": tiled("C4 K4", "N2", "C2", "", "N4 K2", o3="NK")})
    assert run(shared).counts == run(private).counts


def test_a_long_sum_is_exact():
    layer = mac("g", "N2 K4 C4096")
    run(alone(layer, tiled("C4 K4", "N2", "C1024")))
    run(alone(layer, tiled("C4 K4", "N2", "C8", "C4", "C32")))


def test_repeats_run_once():
    layer = mac("g", "N8 K8 C8", repeat=5)
    assert run(alone(layer, tiled("C4 K4", "N8", "C2 K2"))).counts["g"].macs == 512
