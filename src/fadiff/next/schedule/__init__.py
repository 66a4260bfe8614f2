"""Schedules: the values, and which of them are legal."""

from fadiff.next.schedule.ir import Group, Mapping, Schedule, ScheduleError, Trips

__all__ = ["Group", "Mapping", "Schedule", "ScheduleError", "Trips"]
