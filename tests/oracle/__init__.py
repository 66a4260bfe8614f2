"""A brute-force oracle of the cost model: it walks the loop nest of a schedule and counts what moves.

It shares no code and no formula with the model, and reads only the plain fields of workloads, machines and schedules.
Where a formula speaks of counts, traffic and sharing, the oracle has lanes and tiles and looks at them.
"""

from oracle.buffers import Buffer, buffers
from oracle.price import Bill, bill, cost
from oracle.walk import Passage, Walk, walk

__all__ = ["Bill", "Buffer", "Passage", "Walk", "bill", "buffers", "cost", "walk"]
