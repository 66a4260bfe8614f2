"""Groups: tensors that stay on chip, halos that are kept, weights that are pinned."""

from dataclasses import replace

import pytest

from execute.builders import add, dims, group, mac, run, schedule, tiled
from fadiff.execute import ExecutionError, execute
from fadiff.report.agreement import verify
from fadiff.workload import Input, Layer

CONV = "K4 C4 P8 Q6 R3 S3"
ROWS = tiled("C4 K4", "Q6", "R3 S3", "", "P8")
ROW_PAIR = [mac("u", CONV), mac("v", CONV, "u")]


def test_a_fused_tensor_never_sees_dram():
    result = run(schedule(ROW_PAIR, [group("u v", "P8")], {"u": ROWS, "v": ROWS}))
    u, v = result.counts["u"], result.counts["v"]
    assert (u.l3_output, u.l2_output_copy, u.l1_drain) == (0, 4 * 48, 4 * 48)
    assert (v.l3_input, v.l2_input_fill) == (0, 0)
    assert v.l2_input_read == v.macs // 4


def test_halos_are_kept_and_no_row_is_computed_or_fetched_twice():
    result = run(schedule(ROW_PAIR, [group("u v", "P8")], {"u": ROWS, "v": ROWS}))
    assert result.counts["u"].l3_input == 4 * 10 * 8
    assert result.uneven == {"u"}
    assert result.warm_up["u"].macs == 0


def test_a_pinned_weight_is_fetched_once():
    result = run(schedule(ROW_PAIR, [group("u v", "P8")], {"u": ROWS, "v": ROWS}))
    assert result.counts["u"].l3_weight == result.counts["v"].l3_weight == 4 * 4 * 9


def test_a_group_holds_pinned_weights_a_window_and_a_row_buffer():
    result = run(
        schedule(ROW_PAIR, [group("u v", "P4")], {n: tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4") for n in "uv"})
    )
    weights, buffer = 144, 4 * (2 + 2) * 6
    peaks = {peak.layer: peak.l2_bytes for peak in result.peaks}
    # While v runs, of the window over u's input only the two rows that it will need again are there.
    assert peaks["v"] == 2 * weights + buffer + 4 * 2 * 8
    assert peaks["u"] == 2 * weights + buffer + 4 * 4 * 8


def test_weights_with_loops_of_their_own_come_again_in_each_iteration():
    mapping = tiled("C4 K4", "Q6", "R3 S3", "", "P8 K2", o3="PK")
    layers = [mac("u", "K8 C4 P8 Q6 R3 S3"), mac("v", "K8 C8 P8 Q6 R3 S3", "u")]
    mappings = {"u": mapping, "v": replace(mapping, l1=mapping.l1._replace(C=2))}
    result = run(schedule(layers, [group("u v", "P8")], mappings))
    assert result.counts["v"].l3_weight == 8 * 8 * 8 * 9
    # u leads by a row, so it has nothing left to do in the last iteration.
    assert result.counts["u"].l3_weight == 7 * 8 * 4 * 9


def test_registers_load_anew_for_every_layer_of_an_iteration():
    pointwise = tiled("C4 K4", "P2", "", "", "P4")
    layers = [mac("u", "K4 C4 P8"), mac("v", "K4 C4 P8", "u")]
    fused = run(schedule(layers, [group("u v", "P4")], {"u": pointwise, "v": pointwise}))
    apart = run(schedule(layers, [group("u"), group("v")], {"u": pointwise, "v": pointwise}))
    assert fused.counts["u"].l0_weight_fill == 4 * 16
    assert apart.counts["u"].l0_weight_fill == 16


def test_whole_tensors_stay_on_chip_without_shared_loops():
    mappings = {"u": tiled("C4 K4", "Q6", "R3 S3", "", "P8"), "v": tiled("C4 K4", "P8 Q6", "R3 S3")}
    result = run(schedule(ROW_PAIR, [group("u v")], mappings))
    assert result.counts["u"].l3 == 144 + 4 * 10 * 8
    assert result.uneven == frozenset()


def test_tiles_in_two_dimensions_keep_a_line_buffer():
    mapping = tiled("C4 K4", "P2 Q2", "R3 S3", "", "P4 Q3", o3="PQ")
    result = run(schedule(ROW_PAIR, [group("u v", "P4 Q3")], {"u": mapping, "v": mapping}))
    assert result.counts["u"].l3_input == 4 * (4 * (2 + 2)) * 8
    assert result.counts["u"].l2_output_copy == 4 * 48


def test_chains_of_three_lead_by_two_halos():
    layers = [mac("u", CONV), mac("v", CONV, "u"), mac("w", CONV, "v")]
    mapping = tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4")
    result = run(schedule(layers, [group("u v w", "P4")], dict.fromkeys("uvw", mapping)))
    assert result.counts["u"].l3 == 144 + 4 * 10 * 8
    assert result.counts["w"].l3 == 144 + 4 * 48
    assert result.uneven == {"u", "v"}


def test_strides_and_halos_line_up():
    layers = [mac("u", "K4 C4 P8 Q6 R3 S3"), mac("v", "K4 C4 P4 Q3 R3 S3", "u", stride=(2, 2))]
    mappings = {"u": tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4"), "v": tiled("C4 K4", "Q3", "R3 S3", "", "P4")}
    result = run(schedule(layers, [group("u v", "P4")], mappings))
    assert result.uneven == frozenset()
    assert result.counts["u"].l3_input == 4 * 10 * 8


def test_dilated_consumers_keep_wider_halos():
    layers = [mac("u", "K4 C4 P8 Q6"), mac("v", CONV, "u", dilation=(2, 1))]
    mappings = {"u": tiled("C4 K4", "Q6", "", "", "P8"), "v": ROWS}
    run(schedule(layers, [group("u v", "P8")], mappings))


def test_depthwise_layers_fuse_with_pointwise_ones():
    layers = [mac("d", "G8 P8 Q6 R3 S3"), mac("p", "K8 C8 P8 Q6", "d"), mac("e", "G8 P8 Q6 R3 S3", "p")]
    depthwise = tiled("G4", "P2 Q6", "R3 S3 G2", "", "P4")
    mappings = {"d": depthwise, "p": tiled("C4 K4", "P2 Q6", "C2 K2", "", "P4"), "e": depthwise}
    result = run(schedule(layers, [group("d p e", "P4")], mappings))
    assert result.counts["p"].l3 == 64


def test_a_residual_is_read_from_its_buffer():
    layers = [mac("u", "N8 K8 C8"), mac("v", "N8 K8 C8", "u"), add("s", "N8 K8", "v", "u")]
    mapping = tiled("C4 K4", "N2", "C2 K2", "", "N4")
    counts = run(schedule(layers, [group("u v s", "N4")], {"u": mapping, "v": mapping})).counts
    assert counts["s"].l2_addend_read == counts["s"].l1_addend == 2 * 64
    assert counts["s"].l3_input == 0
    assert counts["u"].l2_output_copy == 64


def test_a_residual_from_outside_streams_in_from_dram():
    layers = [mac("u", "N8 K8 C8"), mac("v", "N8 K8 C8", "u"), add("s", "N8 K8", "v", "u")]
    mapping = tiled("C4 K4", "N2", "C2 K2", "", "N4")
    counts = run(schedule(layers, [group("u"), group("v s", "N4")], {"u": mapping, "v": mapping})).counts
    assert (counts["s"].l3_input, counts["s"].l2_addend_read, counts["s"].l1_addend) == (64, 64, 128)


def test_a_tensor_read_inside_and_outside_is_copied_and_drained():
    layers = [mac("u", "N8 K8 C8"), mac("v", "N8 K8 C8", "u"), add("s", "N8 K8", "v", "u")]
    mapping = tiled("C4 K4", "N2", "C2 K2", "", "N4")
    counts = run(schedule(layers, [group("u v", "N4"), group("s")], {"u": mapping, "v": mapping})).counts
    assert (counts["u"].l3_output, counts["u"].l2_output_copy, counts["u"].l1_drain) == (64, 64, 128)


def test_a_residual_around_convolutions_waits_for_its_rows():
    layers = [mac("u", CONV), mac("v", CONV, "u"), mac("w", CONV, "v"), add("s", "K4 P8 Q6", "w", "u")]
    mapping = tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4")
    run(schedule(layers, [group("u v w s", "P4")], dict.fromkeys("uvw", mapping)))


ATTENTION = [mac("qk", "G2 N8 K8 C4", epilogue=("softmax",)), mac("av", "G2 N8 K4 C8", "qk")]
ATTENTION_TILES = {
    "qk": tiled("C4 K4", "N4", "", "", "G2 N2 K2", o3="GNK"),
    "av": tiled("C4 K4", "N4", "", "", "G2 N2 C2", o3="GNC"),
}


def test_sums_stay_in_the_accumulator_over_an_inner_channel_loop():
    result = run(schedule(ATTENTION, [group("qk av", "G2 N2 X2", "GNX")], ATTENTION_TILES))
    assert result.counts["av"].l1_reload == 0
    sums = 4 * 4 * 4
    assert {peak.layer: peak.l1_bytes for peak in result.peaks} == {"qk": 2 * sums, "av": sums}
    assert result.counts["qk"].l3_input == 2 * 8 * 4


def test_sums_spill_over_an_outer_channel_loop():
    result = run(schedule(ATTENTION, [group("qk av", "G2 N2 X2", "GXN")], ATTENTION_TILES))
    assert result.counts["av"].l1_reload == 2 * 8 * 4
    # Weights change with X only, so they stay while N walks.
    assert result.counts["av"].l3_weight == 2 * 4 * 8
    assert result.counts["qk"].l3_input == 2 * (2 * 8 * 4)


def test_a_channel_loop_holds_a_part_of_the_intermediate():
    def buffer(trips, loops):
        result = run(schedule(ATTENTION, [group("qk av", trips, loops)], ATTENTION_TILES))
        return max(peak.l2_bytes for peak in result.peaks)

    assert buffer("G2 N2 X2", "GNX") < buffer("G2 N2", "GN")


def test_transposed_keys_arrive_as_weights():
    layers = [mac("kp", "N8 K4 C8", epilogue=("transpose",)), mac("qk", "N4 K8 C4", None, ("kp", "weight"))]
    mappings = {"kp": tiled("C4 K4", "N4", "C2", "N2"), "qk": tiled("C4 K4", "N4", "", "", "K2")}
    fused = run(schedule(layers, [group("kp qk")], mappings)).counts
    apart = run(schedule(layers, [group("kp"), group("qk")], mappings)).counts
    assert (fused["qk"].l3_weight, fused["kp"].l3_output) == (0, 0)
    assert (apart["qk"].l3_weight, apart["kp"].l3_output) == (32, 32)
    assert fused["qk"].l2_weight_read == apart["qk"].l2_weight_read


def test_heads_walk_together_through_a_weight_port():
    layers = [mac("kp", "G2 N8 K4 C4", epilogue=("transpose",)), mac("qk", "G2 N4 K8 C4", None, ("kp", "weight"))]
    mappings = {"kp": tiled("C4 K4", "N8", "", "", "G2"), "qk": tiled("C4 K4", "N4", "K2", "", "G2")}
    assert run(schedule(layers, [group("kp qk", "G2")], mappings)).counts["qk"].l3_weight == 0


CONCAT = [mac("a", "K4 C4 P8 Q4"), mac("b", "K4 C4 P8 Q4", "a"), mac("c", "K4 C8 P8 Q4 R3 S3", "a", "b")]
CONCAT_TILES = {
    "a": tiled("C4 K4", "Q4", "", "", "P8"),
    "b": tiled("C4 K4", "Q4", "", "", "P8"),
    "c": tiled("C4 K4", "Q4", "R3 S3 C2", "", "P8"),
}


def test_of_a_partly_fused_concatenation_only_the_rest_is_fetched():
    counts = run(schedule(CONCAT, [group("a"), group("b c", "P8")], CONCAT_TILES)).counts
    assert counts["c"].l3_input == 4 * 8 * 4
    assert counts["b"].l3_output == 0


def test_a_fused_concatenation_is_not_fetched_at_all():
    counts = run(schedule(CONCAT, [group("a b c", "P8")], CONCAT_TILES)).counts
    assert counts["c"].l3_input == 0


@pytest.mark.parametrize(("rows", "stored"), [(8, 4), (10, 4)])
def test_pools_between_fused_convolutions_may_overlap_tile_borders(rows, stored):
    layers = [
        mac("u", f"K4 C4 P{rows} Q6 R3 S3", epilogue=("max_pool",), out=(stored, 3)),
        mac("v", f"K4 C4 P{stored} Q3 R3 S3", "u"),
    ]
    mappings = {
        "u": tiled("C4 K4", f"P{rows // 2} Q6", "R3 S3", "", "P2"),
        "v": tiled("C4 K4", f"P{stored // 2} Q3", "R3 S3", "", "P2"),
    }
    counts = run(schedule(layers, [group("u v", "P2")], mappings)).counts
    assert counts["u"].l2_output_copy == 4 * stored * 3
    assert counts["u"].l1_drain == 4 * rows * 6


def test_upsampled_rows_are_stored_when_they_are_needed():
    layers = [
        mac("u", "K4 C4 P4 Q4", epilogue=("upsample",), out=(8, 8)),
        mac("v", "K4 C4 P8 Q8 R3 S3", "u"),
    ]
    mappings = {
        "u": tiled("C4 K4", "", "", "", "P4 Q4", o3="PQ"),
        "v": tiled("C4 K4", "P2 Q2", "R3 S3", "", "P4 Q4", o3="PQ"),
    }
    run(schedule(layers, [group("u v", "P4 Q4")], mappings))


def test_a_flattened_map_feeds_a_linear_layer_on_chip():
    layers = [mac("c", "K4 C4 P4 Q4", epilogue=("flatten",)), mac("fc", "K8 C64", "c")]
    mappings = {"c": tiled("C4 K4", "P4 Q4"), "fc": tiled("C4 K4", "", "C4", "C4", "K2")}
    assert run(schedule(layers, [group("c fc")], mappings)).counts["fc"].l3_input == 0


def test_a_global_pool_may_end_a_group_with_shared_rows():
    layers = [mac("u", CONV), mac("v", CONV, "u", epilogue=("global_pool",), out=(1, 1))]
    result = run(schedule(layers, [group("u v", "P8")], {"u": ROWS, "v": ROWS}))
    assert result.counts["v"].l3_output == 4


def test_batches_inside_rows_need_the_halos_of_every_batch():
    layers = [mac("u", "N4 " + CONV), mac("v", "N4 " + CONV, "u")]
    mapping = tiled("C4 K4", "P2 Q6", "R3 S3", "", "N4 P4", o3="NP")

    def peak(loops):
        result = run(schedule(layers, [group("u v", "N4 P4", loops)], {"u": mapping, "v": mapping}))
        return next(peak.l2_bytes for peak in result.peaks if peak.layer == "v")

    rows = 4 * 6
    # Two rows of each of the three batches that wait; but no part of a window, since it slides no more.
    assert peak("PN") == peak("NP") + 3 * 2 * rows - 4 * 2 * 8


def test_valid_convolutions_fuse_without_padding():
    layers = [mac("u", "K4 C4 P10 Q6 R3 S3"), mac("v", "K4 C4 P8 Q4 R3 S3", "u")]
    mappings = {
        "u": tiled("C4 K4", "P5 Q6", "R3 S3", "", "P2"),
        "v": tiled("C4 K4", "P4 Q4", "R3 S3", "", "P2"),
    }
    assert run(schedule(layers, [group("u v", "P2")], mappings)).counts["u"].l3_input == 4 * 12 * 8


PART_OF_U = [mac("u", "K4 C4 P8 Q6"), mac("v", "K4 C2 P4 Q6 R3", ("u", "input", False)), mac("w", "K4 C4 P4 Q6", "v")]
PARTS = {
    "u": tiled("C4 K4", "Q6", "", "", "P8"),
    "v": tiled("C2 K4", "Q6", "R3", "", "P4"),
    "w": tiled("C4 K4", "Q6", "", "", "P4"),
}


def test_what_cannot_be_fused_is_written_whole_and_read_as_its_reader_wants_it():
    plan = schedule(PART_OF_U, [group("u"), group("v w", "P4")], PARTS)
    counts = run(plan).counts
    assert counts["u"].l3_output == 4 * 48
    assert counts["v"].l3_input == 2 * (4 + 2) * 6
    assert counts["w"].l3_input == 0
    agreement = verify(plan)
    assert agreement.holds
    # What comes from L3 comes padded, like a network input: no count may be smaller.
    assert {count.verdict for count in agreement.words if count.layer in "uv"} == {"equal"}


def test_every_output_is_checked_around_a_tensor_that_cannot_be_fused(monkeypatch):
    plan = schedule(PART_OF_U, [group("u"), group("v w", "P4")], PARTS)
    again = execute(plan, seed=1)
    monkeypatch.setattr("fadiff.execute.outlets.shift_of", lambda layer: 1)
    assert {wrong.layer for wrong in execute(plan, seed=1).mismatches} == {"u", "v", "w"}
    assert execute(plan, seed=1).counts == again.counts


@pytest.mark.parametrize(
    ("layers", "mappings"),
    [
        ([mac("a", "K9 C2"), mac("b", "K2 C3", None, ("a", "weight", False))], {"a": "K9 C2", "b": "K2 C3"}),
        ([mac("a", "K9 C2"), Layer("s", "add", dims("K4 P2"), (Input("a", "addend", False),) * 2)], {"a": "K9 C2"}),
        (
            [mac("a", "K9 C2"), mac("b", "K2 C2"), mac("c", "K2 C7", ("a", "input", False), "b", None)],
            {"a": "K9 C2", "b": "K2 C2", "c": "K2 C7"},
        ),
    ],
    ids=["weight", "addend", "concatenation"],
)
def test_what_cannot_be_fused_may_be_on_any_port(layers, mappings):
    plan = schedule(layers, [group(layer.name) for layer in layers], {n: tiled(t1=t) for n, t in mappings.items()})
    run(plan)
    assert verify(plan).holds


def test_a_group_around_a_tensor_that_cannot_be_fused_cannot_run():
    plan = schedule(PART_OF_U, [group("u v"), group("w")], PARTS)
    with pytest.raises(ExecutionError, match="group u\\+v: v cannot read u on chip"):
        execute(plan)
