"""Sweeps: many searches, on this computer or on a cluster, in a table that goes on where it stopped."""

from fadiff.sweeps.folder import sweep
from fadiff.sweeps.local import Local
from fadiff.sweeps.measure import Crew, Progress
from fadiff.sweeps.plan import Cell, read_plan

__all__ = ["Cell", "Crew", "Local", "Progress", "read_plan", "sweep"]
