"""The printed loops of one layer, run: its text becomes Python, line by line, and every tile that moves is counted."""

import re
from itertools import product
from math import prod

import numpy as np

LOOP = re.compile(r"( *)(?:parallel_)?for (\w\d+) in range\((\d+)\):")
MOVE = re.compile(r"( *)(load|store) ([WIO]) (.+?) (?:\[|\d)")
COMPUTE = re.compile(r"( *)O \+= W \* I")
TENSOR_DIMS = {"W": "gkcrs", "O": "gnkpq", "I": "gnc"}


class Running:
    """A layer on its own, run from the text of its nest; what lies beyond a cut end is left out."""

    def __init__(self, schedule, text):
        self.machine, (self.layer,) = schedule.machine, schedule.workload.layers
        self.sizes = {dim.lower(): size for dim, size in self.layer.dims._asdict().items()}
        self.loops = [(name, int(trips)) for _, name, trips in LOOP.findall(text)]
        self.axes = set(self.machine.structure.axes)
        self.text = text
        d, random = self.layer.dims, np.random.default_rng(0)
        self.weight = random.integers(-8, 8, (d.G, d.K, d.C, d.R, d.S))
        self.input = random.integers(-8, 8, (d.G, d.N, d.C, self.layer.input_rows, self.layer.input_cols))
        self.output = np.zeros((d.G, d.N, d.K, d.P, d.Q), dtype=np.int64)
        self.there, self.seen, self.macs, self.reads = {}, {}, 0, {}
        self.written = {}
        """Values that arrive at, or leave, all instances of a memory: by load or store, tensor and memory."""

    def step(self, name):
        """How much of its dim one trip of a loop covers: the trips of the loops over it further inside."""
        at = [n for n, _ in self.loops].index(name)
        return prod(trips for n, trips in self.loops[at + 1 :] if n[0] == name[0])

    def exists(self, index):
        """Whether an iteration is not beyond a cut end."""
        begin = dict.fromkeys(self.sizes, 0)
        for name, value in index.items():
            begin[name[0]] += self.step(name) * value
        return all(begin[dim] < size for dim, size in self.sizes.items())

    def coordinates(self, index, memory):
        """All values of each dim in one instance of a memory, while the loops of `index` stand where they are."""
        found = {}
        for dim, size in self.sizes.items():
            mine = [(name, trips) for name, trips in self.loops if name[0] == dim]
            choices = [
                [index[name]] if name in index else range(trips) if int(name[1:]) >= memory else [0]
                for name, trips in mine
            ]
            sums = (
                sum(self.step(n) * v for (n, _), v in zip(mine, values, strict=True)) for values in product(*choices)
            )
            found[dim] = tuple(value for value in sums if value < size)
        return found

    def tile(self, tensor, index, memory):
        """Ranges of what one instance holds; rows and columns of the input are those of a box."""
        at = self.coordinates(index, memory)
        ranges = [at[dim] for dim in TENSOR_DIMS[tensor]]
        if tensor == "I":
            for out, kernel, stride, dilation in zip("pq", "rs", self.layer.stride, self.layer.dilation, strict=True):
                if not at[out] or not at[kernel]:
                    return None
                low, high = (end(at[out]) * stride + end(at[kernel]) * dilation for end in (min, max))
                ranges.append(tuple(range(low, high + 1)))
        return tuple(ranges) if all(ranges) else None

    def move(self, kind, tensor, name, index, *, slides):
        """Tiles of all lanes that a line stands outside of; those that several lanes want are read once."""
        if not self.exists(index):
            return
        memory = self.machine.number[name]
        inside = [(n, t) for n, t in self.loops if int(n[1:]) in self.axes and int(n[1:]) < memory and n not in index]
        turn = (tensor, name, tuple((n, v) for n, v in index.items() if int(n[1:]) not in self.axes))
        key, here = (kind, tensor, name), self.there.setdefault((tensor, name), {})
        for values in product(*(range(trips) for _, trips in inside)):
            lane = dict(zip((n for n, _ in inside), values, strict=True))
            if not self.exists({**index, **lane}):
                continue
            tile = self.tile(tensor, {**index, **lane}, memory)
            own = tuple(sorted((n, v) for n, v in {**index, **lane}.items() if int(n[1:]) in self.axes))
            if tile is None:
                continue
            size = prod(map(len, tile))
            if slides:
                # Rows that were there in the turn before, where the window went on: not at the start of a sweep.
                pairs = zip(tile, here.get(own, tile), strict=True)
                size = prod(len(set(new) - set(old)) if new[0] > old[0] else len(new) for new, old in pairs)
            here[own] = tile
            reads = self.reads.setdefault((tensor, name), {})
            # A tile's first turn finds no sums to load; of lanes that add to one tile the first goes on with it.
            first = key[:2] == ("load", "O") and self.seen.setdefault((name, tile), turn) == turn
            if first or (key[:2] == ("load", "O") and (turn, tile) in reads):
                continue
            self.written[key] = self.written.get(key, 0) + size
            reads[turn, tile] = size

    def multiply(self, index):
        if not self.exists(index):
            return
        g, n, k, c, p, q, r, s = (values[0] for values in self.coordinates(index, 1 << 20).values())
        row, col = (
            place * stride + kernel * dilation
            for place, kernel, stride, dilation in zip(
                (p, q), (r, s), self.layer.stride, self.layer.dilation, strict=True
            )
        )
        wanted = {"W": (g, k, c, r, s), "I": (g, n, c, row, col)}
        for (tensor, _), tiles in self.there.items():
            if tensor in wanted:
                assert any(
                    all(at in values for at, values in zip(wanted[tensor], tile, strict=True))
                    for tile in tiles.values()
                )
        self.output[g, n, k, p, q] += self.weight[g, k, c, r, s] * self.input[g, n, c, row, col]
        self.macs += 1

    def read(self, tensor, name):
        """Values read for a memory where it is fed from: equal tiles of one turn are one."""
        return sum(self.reads[tensor, name].values())

    def run(self):
        code, around = [], []
        for line in self.text.splitlines():
            depth = len(line) - len(line.lstrip(" "))
            around = [(indent, name) for indent, name in around if indent < depth]
            index = "{" + ", ".join(f"'{name}': at['{name}']" for _, name in around) + "}"
            if found := LOOP.match(line):
                code.append(f"{found[1]}for at['{found[2]}'] in range({found[3]}):")
                around.append((depth, found[2]))
            elif found := MOVE.match(line):
                ends = found[4].split(" -> ")
                name, slides = ends[found[2] == "load"], "slides" in line
                call = f"'{found[2]}', '{found[3]}', '{name}', {index}, slides={slides}"
                code.append(f"{found[1]}self.move({call})")
            elif found := COMPUTE.match(line):
                code.append(f"{found[1]}self.multiply({index})")
            else:
                code.append("if True:")
        exec("\n".join(code), {"self": self, "at": {}, "range": range})
        return self


def expected_output(running):
    layer, d = running.layer, running.layer.dims
    output = np.zeros_like(running.output)
    for p, q, r, s in product(range(d.P), range(d.Q), range(d.R), range(d.S)):
        row, col = p * layer.stride[0] + r * layer.dilation[0], q * layer.stride[1] + s * layer.dilation[1]
        output[..., p, q] += np.einsum("gkc,gnc->gnk", running.weight[..., r, s], running.input[..., row, col])
    return output
