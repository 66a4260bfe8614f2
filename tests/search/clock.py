"""A clock for tests of budgets, so that timing never decides them."""


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def monotonic(self):
        return self.now
