"""The printed loop nest: its words are the cost model's, its places the model's refills, and its loops really run."""

import re
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from execute.builders import add, alone, group, mac, schedule, tiled
from fadiff.cost import evaluate, load_schedule
from fadiff.report.loop_nest import LoopNest, as_text, loop_nest, loop_nests
from oracle import schedules

DATA = Path(__file__).parents[1] / "data" / "schedules"
FILES = sorted([*DATA.glob("*.json"), *(DATA / "small").glob("*.json")])
SLIDES = re.compile(r"slides: ([\d,]+) fresh words")


def assert_words_are_the_models(evaluation):
    traffic = {name: np.asarray(values) for name, values in evaluation.layers.traffic._asdict().items()}
    nests = loop_nests(evaluation)
    for i, layer in enumerate(evaluation.schedule.workload.layers):
        lines = [line for nest in nests for line in nest.lines if line.layer == layer.name]
        for name, values in traffic.items():
            assert sum(line.words.get(name, 0) for line in lines) == round(float(values[i])), (layer.name, name)


def assert_steps_cover_every_dim(evaluation):
    """One trip of a loop covers what the next loop inside over the same dim runs through; all of them, the dim."""
    for nest in loop_nests(evaluation):
        shared = {line.dim: line.trips for line in nest.lines if line.level == "shared" and line.dim != "X"}
        for name in nest.layers:
            layer = evaluation.schedule.workload[name]
            if not layer.is_mac or any(line.dim == "X" for line in nest.lines):
                continue
            for dim, size in layer.dims._asdict().items():
                left = size // shared.get(dim, 1)
                for line in nest.lines:
                    if line.layer == name and line.dim == dim:
                        assert line.trips * line.step == left
                        left = line.step
                assert left == 1


def assert_places_are_the_models(evaluation):
    """Every load and store is reached as often as it says, and moves a tile each time (fresh words, in a sweep)."""
    for nest in loop_nests(evaluation):
        around: list[tuple[int, int]] = []
        for line in nest.lines:
            around = [(indent, trips) for indent, trips in around if indent < line.indent]
            if line.kind in ("loop", "parallel"):
                around.append((line.indent, line.trips))
            if line.kind not in ("load", "store"):
                continue
            reached = prod(trips for _, trips in around)
            if line.tensor != "O":
                assert line.times == reached
            assert line.times <= reached
            moved = max(count for name, count in line.words.items() if name != "l3_spill")
            if "channels" in line.note or (
                line.tensor == "O" and ("l3_output" in line.words or "l2_output_copy" in line.words)
            ):
                continue
            if found := SLIDES.search(line.note):
                fresh = int(found[1].replace(",", ""))
                sweep = around[-1][1]
                assert moved == line.times // sweep * (line.tile_words + (sweep - 1) * fresh)
            else:
                assert moved == line.tile_words * line.times


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_words_beside_the_lines_sum_to_the_models(path):
    evaluation = evaluate(load_schedule(path))
    assert_words_are_the_models(evaluation)
    assert_places_are_the_models(evaluation)
    assert_steps_cover_every_dim(evaluation)


@settings(max_examples=60)
@given(schedules.single_layers())
def test_a_layer_on_its_own_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))
    assert_places_are_the_models(evaluate(schedule))


@settings(max_examples=40)
@given(schedules.chains())
def test_a_chain_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))
    assert_places_are_the_models(evaluate(schedule))


@settings(max_examples=30)
@given(schedules.residuals())
def test_a_residual_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))


@settings(max_examples=40)
@given(schedules.channel_loops())
def test_a_channel_loop_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))
    assert_places_are_the_models(evaluate(schedule))


@settings(max_examples=30)
@given(schedules.concatenations())
def test_a_concatenation_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))


# The printed loops, run. The text is turned into Python line by line; what is loaded is counted word by word.

LOOP = re.compile(r"( *)(?:parallel_)?for (\w+) in range\((\d+)\):")
LOAD = re.compile(r"( *)(?:\w+: )?load ([WIO]) (L\d) -> (L\d)")
STORE = re.compile(r"( *)(?:\w+: )?store O (L\d) -> (L\d)")
COMPUTE = re.compile(r"( *)O \+= W \* I")


class Running:
    """One layer on its own, run from the text of its nest."""

    def __init__(self, layer, text):
        self.layer, self.text = layer, text
        self.loops = [(name, int(trips)) for _, name, trips in LOOP.findall(text)]
        self.slides = {line.split("load ")[1][0] for line in text.splitlines() if "slides" in line}
        d = layer.dims
        random = np.random.default_rng(0)
        self.weight = random.integers(-8, 8, (d.G, d.K, d.C, d.R, d.S))
        self.input = random.integers(-8, 8, (d.G, d.N, d.C, layer.input_rows, layer.input_cols))
        self.output = np.zeros((d.G, d.N, d.K, d.P, d.Q), dtype=np.int64)
        self.there = {}
        self.loaded = {}
        self.macs = 0

    def step(self, name):
        """How much of its dim one trip of a loop covers: the trips of the loops over it further inside."""
        at = [n for n, _ in self.loops].index(name)
        return prod(trips for n, trips in self.loops[at + 1 :] if n[0] == name[0])

    def places(self, index, levels):
        """All values of each dim while loops of `levels` run and the others stand where they are."""
        found = {}
        for dim in "gnkcpqrs":
            mine = [(name, trips) for name, trips in self.loops if name[0] == dim]
            choices = [range(trips) if name[1] in levels else [index.get(name, 0)] for name, trips in mine]
            found[dim] = [
                sum(self.step(name) * value for (name, _), value in zip(mine, values, strict=True))
                for values in product(*choices)
            ]
        return found

    def words(self, tensor, index, levels):
        at = self.places(index, levels)
        if tensor == "W":
            return set(product(at["g"], at["k"], at["c"], at["r"], at["s"]))
        if tensor == "O":
            return set(product(at["g"], at["n"], at["k"], at["p"], at["q"]))
        (stride_p, stride_q), (dilation_r, dilation_s) = self.layer.stride, self.layer.dilation
        low = [min(at["p"]) * stride_p + min(at["r"]) * dilation_r, min(at["q"]) * stride_q + min(at["s"]) * dilation_s]
        high = [
            max(at["p"]) * stride_p + max(at["r"]) * dilation_r,
            max(at["q"]) * stride_q + max(at["s"]) * dilation_s,
        ]
        rows, cols = (range(a, b + 1) for a, b in zip(low, high, strict=True))
        return set(product(at["g"], at["n"], at["c"], rows, cols))

    def load(self, tensor, target, index):
        wanted = self.words(tensor, index, {"L2": "210s", "L1": "10s", "L0": "s"}[target])
        key = (tensor, target)
        old = self.there.get(key, set()) if tensor in self.slides and target == "L2" else set()
        self.there[key] = wanted
        self.loaded[key] = self.loaded.get(key, 0) + len(wanted - old)

    def multiply(self, index):
        g, n, k, c, p, q, r, s = (values[0] for values in self.places(index, "").values())
        assert (g, k, c, r, s) in self.there["W", "L2"]
        assert (g, k, c, r, s) in self.there["W", "L0"]
        row, col = (
            place * stride + kernel * dilation
            for place, kernel, stride, dilation in zip(
                (p, q), (r, s), self.layer.stride, self.layer.dilation, strict=True
            )
        )
        assert (g, n, c, row, col) in self.there["I", "L2"]
        self.output[g, n, k, p, q] += self.weight[g, k, c, r, s] * self.input[g, n, c, row, col]
        self.macs += 1

    def run(self):
        code = []
        for line in self.text.splitlines():
            if found := LOOP.match(line):
                code.append(f"{found[1]}for index['{found[2]}'] in range({found[3]}):")
            elif found := LOAD.match(line):
                code.append(f"{found[1]}self.load('{found[2]}', '{found[4]}', index)")
            elif found := COMPUTE.match(line):
                code.append(f"{found[1]}self.multiply(index)")
            elif found := STORE.match(line):
                code.append(f"{found[1]}pass")
            else:
                code.append("if True:")
        exec("\n".join(code), {"self": self, "index": {}, "range": range})
        return self


def expected_output(running):
    layer, d = running.layer, running.layer.dims
    output = np.zeros_like(running.output)
    for p, q, r, s in product(range(d.P), range(d.Q), range(d.R), range(d.S)):
        row, col = p * layer.stride[0] + r * layer.dilation[0], q * layer.stride[1] + s * layer.dilation[1]
        output[..., p, q] += np.einsum("gkc,gnc->gnk", running.weight[..., r, s], running.input[..., row, col])
    return output


RUNNABLE = {
    "weights stay while rows pass": alone(
        mac("a", "K4 C2 P6 Q2 R3"), tiled("C2 K2", "Q2", "R3", "K2", "P6", o1="R", o2="K", o3="P")
    ),
    "a strided window slides along columns": alone(
        mac("a", "K2 C2 P3 Q6 R3 S3", stride=(2, 2)), tiled("C2 K2", "P3", "S3", "R3", "Q6", o1="S", o2="R", o3="Q")
    ),
    "sums spill": alone(mac("a", "N4 K4 C4"), tiled("K2", "N2", "", "K2", "C4 N2", o2="K", o3="CN")),
    "groups, dilated": alone(
        mac("a", "G2 K2 C2 P4 Q1 R2", dilation=(2, 1)), tiled("K2", "P2", "R2 C2", "P2", "G2", o1="CR", o2="P", o3="G")
    ),
    "every level loops": alone(
        mac("a", "N2 K8 C8 P4 Q4"),
        tiled("C2 K2", "P2 Q2", "C2 K2", "P2 K2", "N2 C2 Q2", o1="KC", o2="PK", o3="NQC"),
    ),
}


@pytest.mark.parametrize("plan", RUNNABLE.values(), ids=RUNNABLE)
def test_the_printed_loops_compute_the_layer_and_load_what_is_printed_beside_them(plan):
    evaluation = evaluate(plan)
    layer = plan.workload.layers[0]
    running = Running(layer, as_text(loop_nest(evaluation, 0))).run()
    assert np.array_equal(running.output, expected_output(running))
    assert running.macs == layer.macs
    traffic = {name: float(np.asarray(values)[0]) for name, values in evaluation.layers.traffic._asdict().items()}
    assert running.loaded["W", "L2"] == traffic["l3_weight"]
    assert running.loaded["I", "L2"] == traffic["l3_input"]
    assert running.loaded["W", "L0"] == traffic["l0_weight_fill"]
    # A tile's first turn finds no sums to load.
    assert running.loaded.get(("O", "L1"), layer.output_words) - layer.output_words == traffic["l1_reload"]


def fused_pair():
    layers = [mac("u", "K4 C2 P8 R3", epilogue=("relu",)), mac("v", "K2 C4 P8", "u")]
    mappings = {
        "u": tiled("C2 K4", "", "R3 P2", "", "P4", o1="RP"),
        "v": tiled("C4 K2", "P2", "", "", "P4"),
    }
    return schedule(layers, [group("u v", "P4")], mappings)


PAIR = """\
group 1: u + v 4 shared iterations
u: load W L3 -> L2 [K4 C2 R3] 24 words; pinned for the whole group L3 24 L2 24
v: load W L3 -> L2 [K2 C4] 8 words; pinned for the whole group L3 8 L2 8
for p in range(4): shared, output rows
u: K4 C2 P8 R3
load I L3 -> L2 [C2 H4] 8 words x 4; slides: 4 fresh words for 2 more rows after the first turn of a sweep; \
stays for a next iteration L3 20 L2 20
"""


def test_a_fused_pair_reads_from_the_outside_in():
    text = as_text(loop_nest(evaluate(fused_pair()), 0))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[:6] == PAIR.splitlines()
    assert [line.split(" ")[0] for line in lines[6:]] == [
        "for", "load", "for", "parallel_for", "parallel_for", "O", "store", "v:", "I", "load", "parallel_for",
        "parallel_for", "for", "O", "store",
    ]  # fmt: skip
    assert "store O L1 -> L2 (its buffer) 8 words x 4; after relu L2 32 L1 32" in lines
    assert "I is in L2 (buffer of u)" in lines


def test_one_layer_of_a_group_keeps_the_shared_loops():
    nest = loop_nest(evaluate(fused_pair()), 0).of_layer("v")
    assert nest.layers == ("v",)
    assert {line.layer for line in nest.lines} == {None, "v"}
    assert [line.text for line in nest.lines if line.level == "shared"] == ["for p in range(4):"]


def test_loops_of_one_trip_are_left_out():
    for nest in loop_nests(evaluate(load_schedule(DATA / "mobilenet_v1.gemmini-large.fused.json"))):
        assert all(line.trips > 1 for line in nest.lines if line.trips is not None)


def test_a_sum_streams_its_addends():
    plan = schedule(
        [mac("a", "K2 P4"), add("s", "K2 P4", "a", None)], [group("a s", "P2")], {"a": tiled("K2", "P2", "", "", "P2")}
    )
    nest = loop_nest(evaluate(plan), 0)
    texts = {line.text: line for line in nest.lines if line.layer == "s"}
    assert texts["load A L2 -> L1 (buffer of a)"].words == {"l2_addend_read": 8, "l1_addend": 8}
    assert texts["load A L3 -> L1 (network input)"].words == {"l3_input": 8, "l1_addend": 8}
    assert (texts["O = A + A"].kind, texts["store O L1 -> L3"].times) == ("compute", 2)


def test_a_nest_is_plain_data():
    import json
    from dataclasses import asdict

    nest = loop_nest(evaluate(fused_pair()), 0)
    assert isinstance(nest, LoopNest)
    assert json.loads(json.dumps(asdict(nest)))["layers"] == ["u", "v"]


@settings(max_examples=30)
@given(schedules.unfusible())
def test_what_cannot_be_fused_is_printed_as_it_is_priced(schedule):
    assert_words_are_the_models(evaluate(schedule))
