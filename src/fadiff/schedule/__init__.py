"""Schedules: the intermediate representation, its legality, and its file."""

from fadiff.schedule.halo import halos
from fadiff.schedule.ir import DEFAULT_ORDER, SHARED_LOOPS, Group, Mapping, Schedule, ScheduleError, Trips

__all__ = ["DEFAULT_ORDER", "SHARED_LOOPS", "Group", "Mapping", "Schedule", "ScheduleError", "Trips", "halos"]
