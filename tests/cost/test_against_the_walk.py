"""What the sums of a layer need on chip, against the walk: how wide they are, and whether they wait for another turn.

Words, time, energy, tiles and buffers stand against it in `oracle/test_model.py`.
"""

from itertools import pairwise
from math import prod

import numpy as np
import pytest

from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import all_finished, tiles
from fadiff.schedule.rules import Examined
from fadiff.workload import DIMS
from oracle.schedules import KINDS, draw
from oracle.walk import walk

REDUCED = [DIMS.index(dim) for dim in "CRS"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_keeper_holds_outputs_in_their_own_bits_where_only_finished_ones_arrive(kind):
    for seed in range(15):
        schedule = draw(kind, 1000 + seed)
        nest = Examined(schedule).nest
        keepers = schedule.machine.structure.keepers("O")
        for i, layer in enumerate(schedule.workload.layers):
            if layer.is_mac and len(keepers) > 2:
                passages = walk(schedule, layer.name).passages
                for memory, child in pairwise(keepers[1:]):
                    passage = passages["O", child]
                    said = bool(np.asarray(all_finished(nest, memory))[i])
                    assert said == (passage.finished == passage.outer), (seed, layer.name)


def test_sums_wait_for_the_channel_loop_exactly_where_they_leave_their_home_once():
    waited = 0
    for seed in range(60):
        schedule = draw("channel_loop", 1000 + seed)
        machine = schedule.machine
        (group,) = [group for group in schedule.groups if len(group.layers) > 1]
        if group.trips.X == 1:
            continue
        examined = Examined(schedule)
        held, number = tiles(examined.nest, pack_machine(machine)), examined.number["v"]
        home = machine.structure.home("O")
        # Every lane over terms of a sum that is above its home holds a part of each output.
        factors = [schedule.mappings["v"].factors[axis] for axis in machine.structure.axes if axis < home]
        parts = prod(lanes[d] for lanes in factors for d in REDUCED)
        left = walk(schedule, "v").passages["O", home].inner
        once = left == schedule.workload["v"].output_words * parts
        waiting = {memory for memory, sizes in held.waiting.items() if np.asarray(sizes)[number] > 0}
        assert waiting == ({home} if once else set()), seed
        assert np.asarray(held.waiting[home])[number] in (0, np.asarray(held.running[home, "O"])[number])
        waited += once
    assert 5 < waited < 55
