"""Mappings that Timeloop writes, and what cannot be read onto a machine."""

from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.export import read_mappings
from fadiff.hardware import Axis, Machine, Memory
from fadiff.schedule.rules import violations
from fadiff.workload import Dims, Input, Layer, Workload

CHIP = Machine(
    "chip",
    (
        Memory("DRAM", "WIO", 100, 100),
        Memory("buffer", "IO", 5, 5, bytes=1 << 20),
        Axis("column", 4, "Q"),
        Axis("PE", 6, "SK"),
        Memory("weights", "W", 1, 1, bytes=256),
        Memory("sums", "O", 1, 1, bytes=256),
    ),
    0.5,
)
LAYER = Layer("conv", "mac", Dims(K=16, C=8, P=14, Q=12, R=3, S=3), (Input(None),))
WRITTEN = """
mapping:
  - target: sums
    type: datatype
    keep:
      - Outputs
    bypass:
      - Weights
      - Inputs
  - target: inter_PE_spatial
    type: datatype
    keep:
      []
    bypass:
      - Weights
      - Inputs
      - Outputs
  - target: sums
    type: temporal
    factors: C1 M2 R1 S1 N1 P1 Q1
    permutation: MCRSNPQ
  - target: weights
    type: temporal
    factors: C4 M1 R3 S1 N1 P1 Q1
    permutation: CRMSNPQ
  - target: inter_PE_spatial
    type: spatial
    factors: C1 M2 R1 S3 N1 P1 Q1
    permutation: SMCRNPQ
    split: 0
  - target: inter_PE_spatial
    type: temporal
    factors: C1 M1 R1 S1 N1 P1 Q1
    permutation: CMRSNPQ
  - target: inter_column_spatial
    type: spatial
    factors: C1 M1 R1 S1 N1 P1 Q4
    permutation: QCMRSNP
    split: 1
  - target: buffer
    type: temporal
    factors: C2 M2 R1 S1 N1 P2 Q1
    permutation: PCMRSNQ
  - target: DRAM
    type: temporal
    factors: C1 M2 R1 S1 N1 P7 Q3
    permutation: MPCQRSN
"""


def read(text: str, folder: Path, layer: Layer = LAYER, machine: Machine = CHIP):
    path = folder / "timeloop-mapper.map.yaml"
    path.write_text(text, encoding="utf-8")
    return read_mappings(path, Workload("net", (layer,)), machine).mappings["conv"]


def test_what_timeloop_writes_is_read(tmp_path: Path):
    mapping = read(WRITTEN, tmp_path)
    assert mapping.factors == (
        Dims(K=2, P=7, Q=3),
        Dims(C=2, K=2, P=2),
        Dims(Q=4),
        Dims(K=2, S=3),
        Dims(C=4, R=3),
        Dims(K=2),
    )
    # From inner to outer there, from outer to inner here; G, which it does not know, outside.
    assert mapping.orders[:2] == ("GNSRQCPK", "GQNSRKCP")


def test_it_can_be_priced(tmp_path: Path):
    path = tmp_path / "map.yaml"
    path.write_text(WRITTEN, encoding="utf-8")
    assert violations(read_mappings(path, Workload("net", (LAYER,)), CHIP)) == []


def test_a_fan_out_over_two_axes_is_split_between_them(tmp_path: Path):
    spatial = "  - {target: buffer, type: spatial, factors: Q=4 S=3 M=2, permutation: QSMCRNP, split: 1}\n"
    kept = [part for part in WRITTEN.split("  - target")[1:] if "spatial" not in part]
    text = "mapping:\n" + "".join(f"  - target{part}" for part in kept) + spatial
    assert read(text, tmp_path) == read(WRITTEN, tmp_path)


def test_a_fan_out_to_a_memory_is_over_the_axis_above_it(tmp_path: Path):
    nodes = tuple(node for node in CHIP.nodes if node.name != "column")
    machine = Machine("chip", nodes, 0.5)
    text = WRITTEN.replace("inter_PE_spatial", "inter_weights_spatial").replace("inter_column_spatial", "DRAM")
    text = text.replace("P1 Q4", "P1 Q1").replace("P7 Q3", "P7 Q12")
    mapping = read(text, tmp_path, machine=machine)
    assert mapping.factors[2] == Dims(K=2, S=3)


def test_lists_and_names_of_the_front_end_are_read(tmp_path: Path):
    text = WRITTEN.replace("type: datatype", "type: dataspace").replace("inter_PE_spatial", "PE")
    text = text.replace("factors: C1 M2 R1 S3 N1 P1 Q1", "factors: [M=2, S=3]")
    text = text.replace("permutation: SMCRNPQ", "permutation: [S, M, C, R, N, P, Q]").replace("C4 M1 R3", "C=4,M=1,R=0")
    assert read(text, tmp_path) == read(WRITTEN, tmp_path)


def test_remainders_cut_loops_at_their_end(tmp_path: Path):
    odd = Layer("conv", "mac", LAYER.dims._replace(Q=10, P=13), (Input(None),))
    text = WRITTEN.replace("M1 R1 S1 N1 P1 Q4", "M1 R1 S1 N1 P1 Q4,2").replace("N1 P2 Q1", "N1 P2,1 Q1")
    mapping = read(text, tmp_path, odd)
    assert (mapping.factors[0].Q, mapping.factors[2].Q) == (3, 4)
    assert (mapping.factors[0].P, mapping.factors[1].P) == (7, 2)


def test_a_loop_that_always_ends_early_is_a_shorter_one(tmp_path: Path):
    text = WRITTEN.replace("N1 P7 Q3", "N1 P9,7 Q3")
    assert read(text, tmp_path) == read(WRITTEN, tmp_path)


def test_the_channel_of_a_depthwise_layer_is_g(tmp_path: Path):
    machine = Machine("two", (Memory("DRAM", "WIO", 1, 1), Memory("buffer", "WIO", 1, 1, bytes=4096)), 1)
    layer = Layer("conv", "mac", Dims(G=8, P=4, Q=4, R=3, S=3), (Input(None),))
    text = """
mapping:
  - {target: DRAM, type: temporal, factors: M=2 P=4, permutation: PMCRSNQ}
  - {target: buffer, type: temporal, factors: M=4 Q=4 R=3 S=3, permutation: QRSMCNP}
"""
    mapping = read(text, tmp_path, layer, machine)
    assert mapping.factors == (Dims(G=2, P=4), Dims(G=4, Q=4, R=3, S=3))
    assert mapping.orders[0].index("G") < mapping.orders[0].index("P")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("P7 Q3", "P7 Q2"), "the factors of Q make 8, but 'conv' has 12: correct them"),
        (("target: buffer", "target: glb"), "target 'glb' is no node of chip: its nodes are DRAM, buffer, column"),
        (("C4 M1", "C4 X2 M1"), "dim 'X' is unknown: use G, N, K, C, P, Q, R, S, or M for K"),
        (("C4 M1", "C4 C2 M1"), "C has two factors: keep one"),
        (("C4 M1", "C4 <=M1"), "factors '<=M1 R3 S1 N1 P1 Q1' are not of the form P=4 or P=4,3"),
        (("P7 Q3", "P7,8 Q3"), "P runs to 8 of 7 the last time: give 1 to 7"),
        (("MPCQRSN", "MPCQRSP"), "permutation 'MPCQRSP' names a dim twice"),
        (("target: inter_PE_spatial\n    type: temporal\n    factors: C1", "target: inter_PE_spatial\n    type: "
          "temporal\n    factors: C2"), "no memory is there, so no loop can run"),
        (("target: inter_PE_spatial\n    type: spatial", "target: weights\n    type: spatial"), "0 axes lie there"),
        (("keep:\n      - Outputs\n    bypass:\n      - Weights", "keep:\n      - Outputs\n      - Weights\n    bypass:"
          "\n      - Outputs"), "it keeps Weights, but sums of chip does not keep them: write a hardware file"),
        (("- Weights\n      - Inputs\n  - target", "- Psums\n  - target"), "tensor 'Psums' is unknown"),
        (("split: 0", "no_multicast_no_reduction: [Inputs]"), "nothing of the kind is known here: remove it"),
        (("mapping:", "problem:"), "this is a description for Timeloop, not a mapping of Timeloop"),
        (("type: spatial", "type: sideways"), "mapping.4.type"),
        (("target: weights", "target: sums"), "temporal of sums: it is given twice: keep one"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_sentence(change: tuple[str, str], told: str, tmp_path: Path):
    assert change[0] in WRITTEN
    with pytest.raises(FadiffError) as refused:
        read(WRITTEN.replace(*change, 1), tmp_path)
    assert told in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "timeloop-mapper.map.yaml"))


# Folders.


def two_layers() -> Workload:
    return Workload("net", (LAYER, Layer("l/2", "mac", LAYER.dims, (Input(None),))))


def test_a_folder_of_timeloops_own_output_is_read_by_names_of_layers(tmp_path: Path):
    for name in ("conv", "l_2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "timeloop-mapper.map.yaml").write_text(WRITTEN, encoding="utf-8")
    mappings = read_mappings(tmp_path, two_layers(), CHIP).mappings
    assert mappings["conv"] == mappings["l/2"]


def test_a_layer_without_a_mapping_is_told(tmp_path: Path):
    (tmp_path / "conv").mkdir()
    (tmp_path / "conv" / "mapping.yaml").write_text(WRITTEN, encoding="utf-8")
    with pytest.raises(FadiffError, match="there is no mapping of 'l/2'"):
        read_mappings(tmp_path, two_layers(), CHIP)


def test_two_mappings_of_a_layer_are_one_too_many(tmp_path: Path):
    for name in ("mapping.yaml", "timeloop-model.map.yaml"):
        (tmp_path / name).write_text(WRITTEN, encoding="utf-8")
    (tmp_path / "conv").mkdir()
    for name in ("mapping.yaml", "timeloop-model.map.yaml"):
        (tmp_path / "conv" / name).write_text(WRITTEN, encoding="utf-8")
    with pytest.raises(FadiffError, match="both map 'conv': keep one of them"):
        read_mappings(tmp_path, Workload("net", (LAYER,)), CHIP)


def test_a_file_maps_the_only_layer(tmp_path: Path):
    with pytest.raises(FadiffError, match="a file maps one layer, net has 2"):
        read_mappings(tmp_path / "map.yaml", two_layers(), CHIP)
