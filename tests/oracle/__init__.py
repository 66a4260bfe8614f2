"""A brute-force oracle of the cost model: it walks every iteration of a schedule and counts what moves.

It shares no code and no formula with the package, and reads only the plain fields of workloads, machines and
schedules. Where a formula speaks of refills, steps and windows, the oracle holds sets of coordinates and looks.
"""

from oracle.buffers import Buffer, buffers
from oracle.walk import Counts, Peak, Walk, walk

__all__ = ["Buffer", "Counts", "Peak", "Walk", "buffers", "walk"]
