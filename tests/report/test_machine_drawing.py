from dataclasses import replace

from fadiff.hardware import Axis, Machine, Memory, load_machine, read_machine
from fadiff.report.machine_drawing import NodeLine, draw_machine, fusion_sentence, machine_lines

MACHINE = Machine(
    name="mine",
    nodes=(
        Memory("DRAM", "WIO", 100, 100, words_per_cycle=8),
        Memory("sram", "WIO", 1.5, 2.25, bytes=1536, read_words_per_cycle=16, double_buffered=True, fuses=True),
        Axis("lanes", 1000, "KG"),
        Memory("sums", "O", 0.125, 0.125, bytes=1001, word_bits=34),
    ),
    mac_pj=0.5,
)


def test_every_node_and_the_multipliers_have_a_line():
    assert machine_lines(MACHINE, {"sram.write_pj": "as reading", "mac_pj": "as on Gemmini"}) == [
        NodeLine("memory", "DRAM", 1, "W, I, O", "unbounded", "8 bit", "8", "100", ""),
        NodeLine(
            "memory",
            "sram",
            1,
            "W, I, O, fused",
            "half of 1.5 KB",
            "8 bit",
            "16 r, unlimited w",
            "1.5 r, 2.25 w",
            "as reading",
        ),
        NodeLine("axis", "lanes", 1, "1000 lanes over K, G", "", "", "", "", ""),
        NodeLine("memory", "sums", 1000, "O", "1,001 B", "34 bit", "unlimited", "0.125", ""),
        NodeLine("macs", "MACs", 1000, "", "", "", "", "0.5", "as on Gemmini"),
    ]


def test_a_drawing_marks_the_energies_that_were_filled_in():
    file = read_machine("gemmini-large")
    assert draw_machine(file.machine, file.filled) == "\n".join(
        [
            "gemmini-large",
            "             instances                       capacity    word  words/cycle    pJ/word",
            "DRAM                 1  W, I, O             unbounded   8 bit            8      100 *",
            "scratchpad           1  W, I, fused            512 KB   8 bit           64   3.5567 *",
            "- cols                  32 lanes over K, G",
            "accumulator         32  O                        2 KB  32 bit            2  1.63876 *",
            "- rows                  32 lanes over C",
            "registers        1,024  W                         1 B   8 bit    unlimited  0.48746 *",
            "MACs             1,024                                                       0.5608 *",
            "* DRAM: 12.5 pJ a bit",
            "* scratchpad, accumulator: from the capacity",
            "* registers, MACs: as on Gemmini",
            "Tensors between fused layers stay in scratchpad (512 KB), beside tiles of weights, inputs.",
        ]
    )


def test_a_drawing_without_anything_filled_in_has_no_stars():
    assert "*" not in draw_machine(load_machine("gemmini-large"))


def test_a_machine_that_cannot_fuse_is_said_to_run_layer_by_layer():
    nodes = tuple(replace(node, fuses=False) if isinstance(node, Memory) else node for node in MACHINE.nodes)
    assert fusion_sentence(replace(MACHINE, nodes=nodes)) == (
        "No memory says fuses: layers run one by one, and every tensor goes through DRAM."
    )
