"""Which colour each group of a schedule gets, in every picture of it."""

from fadiff.schedule import Schedule

GROUP_COLOURS = 8


def group_colours(schedule: Schedule) -> list[int | None]:
    """The number of each group's colour; None for layers on their own. Groups that follow each other differ."""
    colours: list[int | None] = []
    used = 0
    for group in schedule.groups:
        colours.append(used % GROUP_COLOURS if len(group.layers) > 1 else None)
        used += len(group.layers) > 1
    return colours
