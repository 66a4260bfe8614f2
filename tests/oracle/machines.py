"""Machines to walk on: those of the priced schedule files, and random ones of small numbers.

All of them are roomy: whether tiles fit is none of the walk's business.
"""

from dataclasses import replace
from functools import cache
from random import Random

from fadiff.hardware import Axis, Bits, Machine, Memory
from fadiff.workload import DIMS
from oracle.files import FOLDER, read

ROOMY = 2**40


@cache
def known_machines() -> tuple[Machine, ...]:
    """The machines of the priced schedule files: seven kinds, some in several variants."""
    found = {repr(machine): machine for path in sorted(FOLDER.glob("*.json")) for machine in [read(path)[0].machine]}
    return tuple(_roomy(machine) for machine in found.values())


def _roomy(machine: Machine) -> Machine:
    first, *others = machine.nodes
    return replace(
        machine,
        nodes=(first, *(replace(node, bytes=ROOMY) if isinstance(node, Memory) else node for node in others)),
    )


def machine(rng: Random, *, fuses: bool | None = None) -> Machine:
    """A machine: a known one or a random one; one that can fuse layers if `fuses` says so."""
    while True:
        found = rng.choice(known_machines()) if rng.random() < 0.3 else random_machine(rng)
        if fuses is None or can_fuse(found) == fuses:
            return found


def can_fuse(machine: Machine) -> bool:
    """Whether a layer's outputs can reach the memory that fuses: some keeper of O is further in."""
    fuses = machine.structure.fuses
    return fuses is not None and machine.structure.keepers("O")[-1] > fuses


def random_machine(rng: Random, *, image: bool = False) -> Machine:
    """Two to six memories and up to three axes, in any order behind the first memory.

    With `image` two or three axes that take rows and columns of images and of kernels.
    """
    memories = [_memory(rng, f"m{i}", i == 0) for i in range(rng.randint(2, 6))]
    if not any("O" in memory.keeps for memory in memories[1:]):
        lucky = rng.randrange(1, len(memories))
        memories[lucky] = replace(memories[lucky], keeps=memories[lucky].keeps + "O")
    if image:
        axes = [
            Axis(f"axis{i}", rng.randint(4, 12), rng.choice(("PR", "PRQS", "QS", "PRK")))
            for i in range(rng.randint(2, 3))
        ]
    else:
        axes = [
            Axis(f"axis{i}", rng.randint(1, 6), "".join(rng.sample(DIMS, rng.randint(1, 5))))
            for i in range(rng.randint(0, 3))
        ]
    inside = [*memories[1:], *axes]
    rng.shuffle(inside)
    home = next((i for i, node in enumerate(inside) if isinstance(node, Memory) and "I" in node.keeps), None)
    if home is not None and rng.random() < 0.8 and not any(isinstance(node, Axis) for node in inside[:home]):
        inside[home] = replace(inside[home], fuses=True)
    widths = {what: rng.choice((4, 8, 12, 16, 24, 32)) for what in ("W", "I", "O", "sums", "spilled")}
    overlap = rng.choice(("full", "none"))
    return Machine("random", (memories[0], *inside), 0.5, Bits(**widths), overlap, online_softmax=True)


def _memory(rng: Random, name: str, first: bool) -> Memory:
    rates = rng.choice(({"words_per_cycle"}, {"read_words_per_cycle", "write_words_per_cycle"}, set()))
    return Memory(
        name,
        "WIO" if first else "".join(rng.sample("WIO", rng.randint(1, 3))),
        read_pj=rng.randint(1, 100) / 4,
        write_pj=rng.randint(1, 100) / 4,
        bytes=None if first else ROOMY,
        word_bits=rng.choice((8, 16, 32)),
        **{rate: rng.choice((0.25, 1.0, 3.0, 16.0)) for rate in sorted(rates)},
    )
