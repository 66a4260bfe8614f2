"""Who holds how much of L2 and L1 while a group runs, step by step."""

from collections.abc import Mapping

from fadiff.execute.buffers import Buffer, Shared
from fadiff.execute.geometry import SUM_BYTES, Geometry
from fadiff.execute.memory import Memory
from fadiff.execute.walk import Walk
from fadiff.hardware import Hardware
from fadiff.workload import Workload


class Occupancy:
    """The on-chip memories of a group. It follows a walk without touching data, so a walk can be tried out first."""

    def __init__(
        self,
        workload: Workload,
        hardware: Hardware,
        walk: Walk,
        geometries: Mapping[str, Geometry],
        buffers: Mapping[str, Buffer],
    ) -> None:
        group = walk.group
        self.l1 = Memory("L1", hardware.usable_l1_bytes)
        self.l2 = Memory("L2", hardware.usable_l2_bytes)
        self.peaks: dict[str, tuple[int, int]] = dict.fromkeys(group.layers, (0, 0))
        self._workload, self._walk = workload, walk
        self._geometries, self._buffers = geometries, buffers
        place = {name: i for i, name in enumerate(group.layers)}
        self._last_reader = {
            name: max((e.target for e in workload.consumers[name] if e.target in place), key=place.__getitem__)
            for name in buffers
        }

    def begin(self, name: str, at: Shared) -> None:
        """Makes room for one layer's work in one shared iteration."""
        group = self._walk.group.name
        self.l1.begin_step(group, name)
        self.l2.begin_step(group, name)
        if name in self._buffers:
            buffer = self._buffers[name]
            buffer.reserve(at, *self._walk.stored_block(name, at))
            self.l2.hold(f"{name} buffer", buffer.size_bytes)
        if not self._walk.computes(name, at):
            return
        if name in self._geometries:
            geometry, (rows, cols) = self._geometries[name], self._walk.block(name, at)
            self.l2.hold(f"{name} W", geometry.weight_bytes)
            self.l2.hold(f"{name} I", geometry.input_bytes(rows, cols))
            self.l1.hold(f"{name} O", geometry.sums_bytes(rows, cols))
        else:
            self.l1.hold(f"{name} O", SUM_BYTES * self.add_chunk(name, at))

    def end(self, name: str, at: Shared) -> None:
        """Gives back what the layer does not keep for its next iteration."""
        if not self._walk.computes(name, at):
            pass
        elif name in self._geometries:
            geometry, then = self._geometries[name], self._walk.next_computing(name, at)
            kept = 0
            if then is not None:
                now, later = self._walk.block(name, at), self._walk.block(name, then)
                kept = geometry.kept_input_bytes(at, then, now, later)
            self.l2.hold(f"{name} W", geometry.weight_bytes if geometry.keeps_weight(at, then) else 0)
            self.l2.hold(f"{name} I", kept)
            if not geometry.keeps_sums(at, then):
                self.l1.hold(f"{name} O", 0)
        else:
            self.l1.hold(f"{name} O", 0)
        l1, l2 = self.peaks[name]
        self.peaks[name] = (max(l1, self.l1.step_peak_bytes), max(l2, self.l2.step_peak_bytes))

    def release(self, name: str, at: Shared) -> None:
        """Empties the buffers that wait for this layer, as the last of their readers, of what nobody needs now."""
        for source, reader in self._last_reader.items():
            if reader == name:
                buffer = self._buffers[source]
                buffer.release(at, self._walk.cells_wanted(source, at))
                self.l2.hold(f"{source} buffer", buffer.size_bytes)

    def add_chunk(self, name: str, at: Shared) -> int:
        """Words an add layer sums at a time: its operands stream through L1, so it takes what is free."""
        (r0, r1), (c0, c1) = self._walk.block(name, at)
        d = self._workload[name].dims
        words = d.N // self._walk.group.trips.N * d.K * (r1 - r0) * (c1 - c0)
        return max(1, min(words, self.l1.capacity_bytes // SUM_BYTES))
