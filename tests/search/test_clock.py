"""The two clocks of budgets."""

import time

from fadiff.search import clock


def test_the_clock_of_cores_stands_while_a_process_waits():
    with clock.of_cores():
        before, on_the_wall = clock.monotonic(), time.monotonic()
        time.sleep(0.05)
        assert clock.monotonic() - before < 0.5 * (time.monotonic() - on_the_wall)


def test_it_runs_while_the_process_works_and_the_one_on_the_wall_is_back_afterwards():
    with clock.of_cores():
        before = clock.monotonic()
        while clock.monotonic() - before < 0.01:
            pass
    assert abs(clock.monotonic() - time.monotonic()) < 1
