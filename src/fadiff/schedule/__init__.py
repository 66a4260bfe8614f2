"""Schedules: the values, and which of them are legal."""

from fadiff.schedule.ir import Group, Mapping, Schedule, ScheduleError, Trips

__all__ = ["Group", "Mapping", "Schedule", "ScheduleError", "Trips"]
