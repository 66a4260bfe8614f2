"""What the comparison with DeFiNES on its own machines found, in words and tables."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from fadiff.reproduce.defines.machines.causes import EXPLANATIONS, Pair
from fadiff.reproduce.defines.machines.compare import Comparison, told_tile
from fadiff.reproduce.experiment import markdown_table, wrapped

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk

LARGE = 0.15
"""Share by which two numbers must differ to be explained one by one."""
SMALL = 0.02
"""Share of the energy from which on a cause is named."""
MJ_PER_PJ = 1e-9
SETTING = wrapped(
    "DeFiNES and the search here each look for the least energy on the same machines, those of DeFiNES' authors, and "
    "the same networks, without padding. *Single layers*: every layer goes through DRAM. *Layer by layer*: whole maps, "
    "which stay on chip where they fit. *Best*: the least energy of all, for DeFiNES among its rows of the table, here "
    "of any groups in any tiles. Energies are in mJ, ours / DeFiNES'. *Gain* is the energy of single layers over that "
    "of the best schedule; tiles are columns x rows of a group's last map."
)
TILES = wrapped(
    "Depth first in DeFiNES' own stacks and tiles, halos kept (`fully_cached`). Trip counts here cut a map into equal "
    "tiles, so that some are a little smaller; tiles whose buffers do not fit in the memory that fuses are left out:"
)


def tell(desk: Desk, found: Sequence[Comparison], figure: str) -> str:
    """The section of the page."""
    return f"""\
### Fusion on DeFiNES' own machines

```
{desk.command()}
```

{SETTING}

{_summary(found)}
{_ended(found)}

{figure}
{TILES}

{_tiles(found)}
{_differences(found)}

{wrapped(f"All rows, with the energy of every memory: [{desk.stem}.csv](results/{desk.stem}.csv).")}
"""


def _summary(found: Sequence[Comparison]) -> str:
    columns = ["network, machine", "single layers", "layer by layer", "best", "gain, ours", "DeFiNES'"]
    lines = [
        [
            str(one),
            _energies(one.single),
            "-" if one.whole is None else _energies(one.whole),
            _energies(one.best),
            *(f"{gain:.2f}" for gain in one.gains),
            one.best.ours.groups or "-",
            told_tile(one.best.theirs) or "-",
        ]
        for one in found
    ]
    return markdown_table([*columns, "groups and tiles, ours", "tile, DeFiNES'"], lines)


def _ended(found: Sequence[Comparison]) -> str:
    early = [str(one) for one in found if one.best.ours.stopped == "budget"]
    return wrapped(f"The free search was out of time on {'; '.join(early)}." if early else "No search was out of time.")


def _energies(pair: Pair) -> str:
    ours, theirs = (row.energy_pj * MJ_PER_PJ for row in (pair.ours, pair.theirs))
    return f"{ours:.3f} / {theirs:.3f} ({pair.more:+.1%})"


def _tiles(found: Sequence[Comparison]) -> str:
    lines = [
        [str(one), told_tile(pair.theirs), pair.ours.groups, _energies(pair)] for one in found for pair in one.tiled
    ]
    return markdown_table(["network, machine", "DeFiNES' tile", "groups and tiles, ours", "energy"], lines)


def _differences(found: Sequence[Comparison]) -> str:
    """A sentence on every large difference, and what the causes that they name are."""
    pairs = {f"{one}, {name}": pair for one in found for name, pair in one.pairs.items()}
    large = {name: pair for name, pair in pairs.items() if abs(pair.more) > LARGE}
    told = [f"{name}: {_more(pair)} energy here, {_explained(pair)}." for name, pair in large.items()]
    told += [f"{one}, gain: {_gain(one)}." for one in found if abs(_gain_off(one)) > LARGE]
    head = f"{len(pairs) - len(large)} of {len(pairs)} energies agree within {LARGE:.0%}."
    if not told:
        return wrapped(head)
    causes = [f"*{cause}*: {why}." for cause, why in EXPLANATIONS.items() if any(f"*{cause}*" in one for one in told)]
    return "\n".join(
        [
            wrapped(f"{head} The others, and the gains that differ as much, with shares of DeFiNES' energy:"),
            "",
            *map(_bullet, told),
            "",
            "The causes:",
            "",
            *map(_bullet, causes),
        ]
    )


def _explained(pair: Pair, most: int = 3) -> str:
    """The causes that matter, the largest first."""
    parts = [part for part in pair.parts() if abs(part.share) > SMALL]
    return "; ".join(f"{part.share:+.0%} in {_listed(part.memories)} (*{part.cause}*)" for part in parts[:most])


def _more(pair: Pair) -> str:
    return f"{abs(pair.more):.0%} {'more' if pair.more > 0 else 'less'}"


def _gain(one: Comparison) -> str:
    """What makes a gain differ: the two energies that it is made of."""
    ours, theirs = one.gains
    return (
        f"{ours:.1f} here and {theirs:.1f} there, since the best schedule takes {_more(one.best)} here, and single "
        f"layers {_more(one.single)}, {_explained(one.single, most=1)}"
    )


def _gain_off(one: Comparison) -> float:
    ours, theirs = one.gains
    return ours / theirs - 1


def _bullet(text: str) -> str:
    return fill(text, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
