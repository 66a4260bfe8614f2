"""A memory level as its tenants see it: a byte capacity, and who holds how much of it."""

from fadiff.execute.counts import Overflow

HOLDERS_NAMED = 6
"""Tenants an overflow report names; the rest are left out."""


class Memory:
    """One on-chip level of bounded capacity.

    Tenants hold bytes under a name. Exceeding the capacity does not stop the execution, so that one run finds all
    that is wrong: the worst moment of each step is kept as an :class:`Overflow`.
    """

    def __init__(self, level: str, capacity_bytes: int) -> None:
        self.level = level
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.step_peak_bytes = 0
        self.overflows: dict[tuple[str, str], Overflow] = {}
        self._held: dict[str, int] = {}
        self._step = ("", "")

    def begin_step(self, group: str, layer: str) -> None:
        """From here on, peaks and overflows belong to this layer of this group."""
        self._step = (group, layer)
        self.step_peak_bytes = self.used_bytes

    def hold(self, tenant: str, size_bytes: int) -> None:
        """Sets what a tenant holds; 0 gives all of it back."""
        self.used_bytes += size_bytes - self._held.get(tenant, 0)
        if size_bytes:
            self._held[tenant] = size_bytes
        else:
            self._held.pop(tenant, None)
        self.step_peak_bytes = max(self.step_peak_bytes, self.used_bytes)
        if self.used_bytes > self.capacity_bytes:
            self._record_overflow()

    def _record_overflow(self) -> None:
        known = self.overflows.get(self._step)
        if known is None or known.needed_bytes < self.used_bytes:
            largest = sorted(self._held.items(), key=lambda held: -held[1])[:HOLDERS_NAMED]
            self.overflows[self._step] = Overflow(
                *self._step, self.level, self.used_bytes, self.capacity_bytes, tuple(largest)
            )
