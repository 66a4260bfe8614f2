"""How a step says that the budget ended before it did."""


class OutOfTimeError(Exception):
    """The budget ended in the middle of a step; the incumbent stands."""
