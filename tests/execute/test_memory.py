from fadiff.execute.memory import Memory


def test_a_level_says_what_it_cannot_hold_and_who_holds_it():
    memory = Memory("L2", 100)
    memory.begin_step("a+b", "b")
    memory.hold("a W", 70)
    memory.hold("b I", 50)
    (overflow,) = memory.overflows.values()
    assert (overflow.needed_bytes, overflow.capacity_bytes) == (120, 100)
    assert overflow.holders == (("a W", 70), ("b I", 50))
    assert "group a+b, while b runs: L2 needs 120 bytes, it has 100 (a W 70, b I 50)" in str(overflow)


def test_what_just_fits_is_no_overflow():
    memory = Memory("L1", 100)
    memory.hold("O", 100)
    assert memory.overflows == {}


def test_room_given_back_can_be_held_again():
    memory = Memory("L2", 100)
    memory.hold("W", 80)
    memory.hold("W", 0)
    memory.hold("I", 100)
    assert (memory.used_bytes, memory.overflows) == (100, {})


def test_a_step_remembers_its_worst_moment():
    memory = Memory("L2", 10)
    memory.begin_step("g", "a")
    for size in (12, 40, 20):
        memory.hold("W", size)
    assert memory.step_peak_bytes == 40
    assert [overflow.needed_bytes for overflow in memory.overflows.values()] == [40]
    memory.begin_step("g", "b")
    assert memory.step_peak_bytes == 20
