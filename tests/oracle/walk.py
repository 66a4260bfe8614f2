"""Words moved by a schedule, counted one iteration at a time.

The walk runs the loop nest of every group as it is written: shared loops outside, the group's layers one after the
other inside, then each layer's private L3, L2, L1 and L0 loops, and the array's PEs. It remembers which coordinates
are in L2 (a weight tile, an input window), in L1 (a tile of sums) and in the registers (one weight per PE), and
counts words whenever the wanted coordinates are not the ones that are there.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

DIMS = "GNKCPQRS"
WEIGHT, INPUT, OUTPUT = "GKCRS", "GNCPQRS", "GNKPQ"


@dataclass
class Counts:
    """Words of one execution of a layer, under the names the cost model gives them."""

    macs: int = 0
    l0_weight_fill: int = 0
    l1_update: int = 0
    l1_drain: int = 0
    l1_reload: int = 0
    l1_addend: int = 0
    l2_weight_fill: int = 0
    l2_weight_read: int = 0
    l2_input_fill: int = 0
    l2_input_read: int = 0
    l2_output_copy: int = 0
    l2_addend_read: int = 0
    l3_weight: int = 0
    l3_input: int = 0
    l3_output: int = 0
    l3_spill: int = 0

    @property
    def levels(self):
        """Accesses of L0, L1, L2 and L3."""
        return {
            "l0": self.macs + self.l0_weight_fill,
            "l1": self.l1_update + self.l1_drain + self.l1_reload + self.l1_addend,
            "l2": self.l2_weight_fill
            + self.l2_weight_read
            + self.l2_input_fill
            + self.l2_input_read
            + self.l2_output_copy
            + self.l2_addend_read,
            "l3": self.l3_weight + self.l3_input + self.l3_output + self.l3_spill,
        }


@dataclass
class Peak:
    """Bytes on chip for the tiles of one layer; its buffer is the business of :mod:`oracle.buffers`."""

    kept: Fraction = Fraction(0)
    passing: Fraction = Fraction(0)
    l1_bytes: Fraction = Fraction(0)
    """L1 while the layer runs, sums that wait for it included."""


@dataclass
class Walk:
    """What a walk over a whole schedule found, by layer."""

    counts: dict = field(default_factory=dict)
    peaks: dict = field(default_factory=dict)
    energy_pj: float = 0.0
    cycles: float = 0.0


def walk(schedule):
    """Run every group of a schedule and count."""
    found = Walk()
    for group in schedule.groups:
        runs = _run_group(schedule, group)
        for name, run in runs.items():
            found.counts[name] = run.counts
            found.peaks[name] = run.peak()
            energy, cycles = price(schedule, run.layer, run.counts)
            found.energy_pj += energy * run.layer.repeat
            found.cycles += cycles * run.layer.repeat
    return found


def _run_group(schedule, group):
    nesting = shared_loops(group)
    runs = {}
    for name in group.layers:
        layer = layer_named(schedule, name)
        runs[name] = (MacRun if layer.kind == "mac" else AddRun)(schedule, group, layer)
    for place in product(*(range(trips) for _, trips in nesting)):
        indices = dict(zip((loop for loop, _ in nesting), place, strict=True))
        for name in group.layers:
            # The sums of a channel loop's consumer wait in L1 while its producer runs, if they are still there and
            # will be wanted again.
            waiting = sum(runs[other].waiting(indices) for other in group.layers if other != name)
            runs[name].run(indices)
            runs[name].note_l1(waiting)
    for run in runs.values():
        run.finish()
    return runs


def shared_loops(group):
    """(loop, trips) of a group's shared loops, outer to inner."""
    trips = group.trips._asdict()
    letters = group.loops + "".join(letter for letter in "GNPQ" if letter not in group.loops)
    assert trips["X"] == 1 or "X" in group.loops
    return [(letter, trips[letter]) for letter in letters]


def layer_named(schedule, name):
    return next(layer for layer in schedule.workload.layers if layer.name == name)


def readers(schedule, name):
    """Layers that read a layer's output, once for each operand."""
    return [layer.name for layer in schedule.workload.layers for o in layer.inputs if o.source == name]


class Run:
    """One layer as it runs inside its group: what both kinds of layers share."""

    def __init__(self, schedule, group, layer):
        self.hardware, self.group, self.layer = schedule.hardware, group, layer
        self.counts = Counts()
        reading = readers(schedule, layer.name)
        self.fused = any(name in group.layers for name in reading)
        self.drained = not reading or any(name not in group.layers for name in reading)
        self.stored = set()
        self.l1_peak = Fraction(0)

    def output_leaves(self, g, n, k):
        """One finished output leaves L1: read once for the buffer in L2, once for L3."""
        self.counts.l1_drain += self.fused + self.drained
        self.stored.add((g, n, k))

    def finish(self):
        """The group has run: what the outputs became after the epilogue has arrived."""
        rows, cols = self.layer.out or (self.layer.dims.P, self.layer.dims.Q)
        words = len(self.stored) * rows * cols
        self.counts.l3_output += words if self.drained else 0
        self.counts.l2_output_copy += words if self.fused else 0

    def waiting(self, indices):
        return Fraction(0)

    def note_l1(self, waiting):
        pass


class AddRun(Run):
    """An add layer: every operand of every element passes through L1."""

    def __init__(self, schedule, group, layer):
        super().__init__(schedule, group, layer)
        self.operands = [operand.source in group.layers for operand in layer.inputs]

    def run(self, indices):
        size, trips = self.layer.dims, self.group.trips
        spans = []
        for dim, shared in (("N", trips.N), ("K", 1), ("P", trips.P), ("Q", trips.Q)):
            extent = getattr(size, dim) // shared
            start = indices.get(dim, 0) * extent if shared > 1 else 0
            spans.append(range(start, start + extent))
        for n, k, _, _ in product(*spans):
            for fused in self.operands:
                self.counts.l1_addend += 1
                if fused:
                    self.counts.l2_addend_read += 1
                else:
                    self.counts.l3_input += 1
            self.output_leaves(0, n, k)

    def peak(self):
        return Peak()


class MacRun(Run):
    """A MAC layer: its tiles in L2, L1 and the registers, and the sums it has accumulated so far."""

    def __init__(self, schedule, group, layer):
        super().__init__(schedule, group, layer)
        mapping = schedule.mappings[layer.name]
        self.size = layer.dims._asdict()
        self.spatial = mapping.spatial._asdict()
        self.loops = {0: mapping.l0._asdict(), 1: mapping.l1._asdict(), 2: mapping.l2._asdict()}
        self.order = {0: DIMS, 1: mapping.order1, 2: mapping.order2}
        # What one step of a loop of each level moves over: the tile of the level below.
        self.extent = {0: self.spatial}
        for level in (1, 2, 3):
            self.extent[level] = {d: self.extent[level - 1][d] * self.loops[level - 1][d] for d in DIMS}

        # The shared loops are the outermost part of the L3 loops; X is part of K before the edge and of C behind it.
        x_dim = "K" if layer.name == group.layers[0] else "C"
        self.shared = [(loop, x_dim if loop == "X" else loop, trips) for loop, trips in shared_loops(group)]
        part = {dim: trips for _, dim, trips in self.shared if trips > 1}
        self.private = {d: mapping.l3._asdict()[d] // part.get(d, 1) for d in DIMS}
        self.order3 = mapping.order3
        running = [(dim, "shared") for _, dim, trips in self.shared if trips > 1]
        running += [(dim, "private") for dim in self.order3 if self.private[dim] > 1]
        self.innermost = running[-1] if running else (None, None)

        # Which input channels come from L3, and whether the weights do.
        self.from_l3 = _channels_from_l3(schedule, group, layer)
        self.weights_from_l3 = not any(o.port == "weight" and o.source in group.layers for o in layer.inputs)

        self.weight_at = self.window_at = self.sums_at = None
        self.weight, self.window, self.sums = set(), set(), []
        self.registers = {}
        self.terms = Counter()
        self.sizes = {"weight": 0, "window": 0}
        self.kept = {"weight": False, "window": False}

    def run(self, indices):
        """One shared iteration: the private loops, from L3 down to the PEs."""
        if len(self.group.layers) > 1:
            self.registers = {}  # other layers have used the array meanwhile
        for survives, relevant in (("weight", WEIGHT), ("window", INPUT)):
            if any(self.private[d] > 1 for d in relevant):
                self._drop(survives)
        base = dict.fromkeys(DIMS, 0)
        for loop, dim, trips in self.shared:
            if trips > 1:
                base[dim] = indices[loop]
        first = True
        for place in product(*(range(self.private[d]) for d in self.order3)):
            inner = dict(zip(self.order3, place, strict=True))
            at3 = {d: base[d] * self.private[d] + inner[d] for d in DIMS}
            sweeping, kind = self.innermost
            advanced = sweeping is not None and (base if kind == "shared" else inner)[sweeping] > 0
            self._want_weights(at3, first)
            self._want_window(at3, sweeping if advanced else None, first)
            self._run_l2(at3)
            first = False

    def _drop(self, tile):
        if tile == "weight":
            self.weight_at, self.weight = None, set()
        else:
            self.window_at, self.window = None, set()

    def _span(self, at3, dim):
        extent = self.extent[3][dim]
        return range(at3[dim] * extent, (at3[dim] + 1) * extent)

    def _want_weights(self, at3, first):
        wanted_at = tuple(at3[d] for d in WEIGHT)
        if wanted_at == self.weight_at:
            self.kept["weight"] |= first  # still there from the shared iteration before
            return
        self.weight = set(product(*(self._span(at3, d) for d in WEIGHT)))
        self.weight_at = wanted_at
        self.sizes["weight"] = max(self.sizes["weight"], len(self.weight))
        if self.weights_from_l3:
            self.counts.l2_weight_fill += len(self.weight)
            self.counts.l3_weight += len(self.weight)

    def _want_window(self, at3, sweeping, first):
        """Fetch an input window; of one that slides along the innermost L3 loop, only what was not there."""
        wanted_at = tuple(at3[d] for d in INPUT)
        if wanted_at == self.window_at:
            self.kept["window"] |= first
            return
        (stride_p, stride_q), (dilation_r, dilation_s) = self.layer.stride, self.layer.dilation
        p, r, q, s = (self._span(at3, d) for d in "PRQS")
        rows = range(p[0] * stride_p + r[0] * dilation_r, p[-1] * stride_p + r[-1] * dilation_r + 1)
        cols = range(q[0] * stride_q + s[0] * dilation_s, q[-1] * stride_q + s[-1] * dilation_s + 1)
        wanted = set(product(*(self._span(at3, d) for d in "GNC"), rows, cols))
        fetched = wanted - self.window if sweeping in ("P", "Q", "R", "S") else wanted
        self.kept["window"] |= first and len(fetched) < len(wanted)
        self.window, self.window_at = wanted, wanted_at
        self.sizes["window"] = max(self.sizes["window"], len(wanted))
        words = sum(g * self.size["C"] + c in self.from_l3 for g, _, c, _, _ in fetched)
        self.counts.l2_input_fill += words
        self.counts.l3_input += words

    def _run_l2(self, at3):
        for at2 in self._steps(2, at3):
            wanted_at = tuple(at2[d] for d in OUTPUT)
            if wanted_at != self.sums_at:
                self._sums_leave()
                self.sums_at = wanted_at
                spans = (range(at2[d] * self.extent[2][d], (at2[d] + 1) * self.extent[2][d]) for d in OUTPUT)
                self.sums = list(product(*spans))
                for output in self.sums:
                    if self.terms[output]:
                        self.counts.l1_reload += 1
                        self.counts.l3_spill += self.hardware.spill_words
            for at1 in self._steps(1, at2):
                for at0 in self._steps(0, at1):
                    self._step(at0)

    def _steps(self, level, above):
        """Tile numbers of the next level down, in loop order."""
        order, trips = self.order[level], self.loops[level]
        for place in product(*(range(trips[d]) for d in order)):
            yield {d: above[d] * trips[d] + i for d, i in zip(order, place, strict=True)}

    def _step(self, at0):
        """One cycle of the array: every PE multiplies its weight with an input of its row."""
        inputs, updated = set(), Counter()
        for pe in product(*(range(self.spatial[d]) for d in DIMS)):
            g, n, k, c, p, q, r, s = (at0[d] * self.spatial[d] + i for d, i in zip(DIMS, pe, strict=True))
            weight = (g, k, c, r, s)
            assert weight in self.weight
            if self.registers.get(pe) != weight:
                self.registers[pe] = weight
                self.counts.l0_weight_fill += 1
                self.counts.l2_weight_read += 1
            row = p * self.layer.stride[0] + r * self.layer.dilation[0]
            col = q * self.layer.stride[1] + s * self.layer.dilation[1]
            inputs.add((g, n, c, row, col))  # broadcast: PEs of one row that want the same word share the read
            updated[g, n, k, p, q] += 1  # reduced down the column before it reaches L1
            self.counts.macs += 1
        assert inputs <= self.window
        self.counts.l2_input_read += len(inputs)
        for output, terms in updated.items():
            self.counts.l1_update += 2 if self.terms[output] else 1  # read and write; the first only writes
            self.terms[output] += terms

    def _sums_leave(self):
        all_terms = self.size["C"] * self.size["R"] * self.size["S"]
        for output in self.sums:
            if self.terms[output] == all_terms:
                self.output_leaves(*output[:3])
            else:
                self.counts.l1_drain += 1
                self.counts.l3_spill += self.hardware.spill_words
        self.sums = []

    def finish(self):
        self._sums_leave()
        assert set(self.terms.values()) == {self.size["C"] * self.size["R"] * self.size["S"]}
        super().finish()

    def _l1_bytes(self, sums):
        """One bank per array column: the fullest column in use sets the height of all of them."""
        columns = Counter((output[0] % self.spatial["G"], output[2] % self.spatial["K"]) for output in sums)
        return Fraction(4 * self.hardware.cols * max(columns.values()))

    def note_l1(self, waiting):
        self.l1_peak = max(self.l1_peak, self._l1_bytes(self.sums) + waiting)

    def waiting(self, indices):
        """L1 bytes of unfinished sums that stay until this layer runs in this shared iteration."""
        if not self.sums or not any(loop == "X" and trips > 1 for loop, _, trips in self.shared):
            return Fraction(0)
        if self.terms[self.sums[0]] == self.size["C"] * self.size["R"] * self.size["S"]:
            return Fraction(0)
        base = {dim: indices[loop] for loop, dim, trips in self.shared if trips > 1}
        next_at = tuple(base.get(d, 0) * self.private[d] * self.loops[2][d] for d in OUTPUT)
        return self._l1_bytes(self.sums) if next_at == self.sums_at else Fraction(0)

    def peak(self):
        channels = self.size["G"] * self.size["C"]
        words = {
            "weight": Fraction(self.sizes["weight"] if self.weights_from_l3 else 0),
            "window": Fraction(self.sizes["window"] * len(self.from_l3), channels),
        }
        kept = sum((size for tile, size in words.items() if self.kept[tile]), Fraction(0))
        return Peak(kept=kept, passing=sum(words.values()) - kept, l1_bytes=self.l1_peak)


def _channels_from_l3(schedule, group, layer):
    """Input channels, numbered over all groups, whose words a layer fetches from L3."""
    operands = [operand for operand in layer.inputs if operand.port == "input"]
    total = layer.dims.G * layer.dims.C
    brought = []
    for operand in operands:
        if operand.source is None or not operand.fusible or len(operands) == 1:
            brought.append(None)
        else:
            source = layer_named(schedule, operand.source)
            image = source.out or (source.dims.P, source.dims.Q)
            flat = image[0] * image[1] if "flatten" in source.epilogue else 1
            brought.append(source.dims.G * source.dims.K * flat)
    rest, sharing = total - sum(channels or 0 for channels in brought), brought.count(None)
    shares = [rest // sharing] * sharing if sharing else []
    shares[-1:] = [share + rest % sharing for share in shares[-1:]]
    brought = [shares.pop(0) if channels is None else channels for channels in brought]
    assert sum(brought) == total
    from_l3, start = set(), 0
    for operand, channels in zip(operands, brought, strict=True):
        if operand.source not in group.layers:
            from_l3 |= set(range(start, start + channels))
        start += channels
    return from_l3


def price(schedule, layer, counts):
    """(energy in pJ, cycles) of one execution of a layer."""
    machine, accesses = schedule.hardware, counts.levels
    if layer.kind == "mac":
        s = schedule.mappings[layer.name].spatial
        columns, pes = s.K * s.G, s.K * s.G * s.C * s.R * s.S
    else:
        columns, pes = machine.cols, 1
    on_chip = max(
        counts.macs / pes,
        accesses["l1"] / (machine.words_per_cycle.l1_per_column * columns),
        accesses["l2"] / machine.words_per_cycle.l2,
    )
    dram = accesses["l3"] / machine.words_per_cycle.l3
    energy = counts.macs * machine.pj.mac + sum(n * getattr(machine.pj, level) for level, n in accesses.items())
    return energy, on_chip + dram if machine.overlap == "none" else max(on_chip, dram)
