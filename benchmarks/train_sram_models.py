"""Trains the networks of an SRAM's energy, area and leakage on the CACTI table: the weights that the package ships.

    python -m benchmarks.train_sram_models energy     # or area, or leakage

A fifth of the rows, drawn at random, is held out; the network that ships is the one trained without them, so the
errors written beside its weights are its own. The seed fixes the split and the start; arithmetic of another processor
may change the last digits of the weights, so what the project computes with is the file, not a new training.
"""

import csv
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from fadiff.files import write_text
from fadiff.hardware.sram_network import WIDTH_SIGNS, Quantity, Weights, log_network

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "data" / "cacti_sram_epa.csv"
WEIGHTS = ROOT / "src" / "fadiff" / "hardware"

COLUMNS: dict[Quantity, tuple[str, ...]] = {
    "energy": ("read_pj_per_byte", "write_pj_per_byte"),
    "area": ("area_mm2",),
    "leakage": ("leakage_mw", "gate_leakage_mw"),
}
"""Columns of the table that make a quantity: of energy their mean, of leakage their sum."""
ABOUT: dict[Quantity, str] = {"energy": "ln(pJ/byte)", "area": "ln(mm2)", "leakage": "ln(mW)"}

SEED = 0
HIDDEN = 16
HELD_OUT_SHARE = 0.2
STEPS = 5000
LEARNING_RATE = 0.02
WEIGHT_DECAY = 1e-3
STORED_DIGITS = 7

# Where the two published configurations read the table: (name, capacity, row width). The last one, a bank of 512 bytes,
# is read at the table's edge of 1 KB.
REFERENCE_POINTS = (
    ("gemmini-large scratchpad", 512 * 1024, 128),
    ("gemmini-large accumulator", 2 * 1024, 32),
    ("gemmini-small scratchpad", 8 * 1024, 128),
    ("gemmini-small accumulator", 1024, 32),
)


class Table(NamedTuple):
    """Rows of the CACTI table as columns: float64 [rows]."""

    capacity_bytes: NDArray[np.float64]
    width_bits: NDArray[np.float64]
    log_value: NDArray[np.float64]

    def rows(self, index: NDArray[np.int64]) -> "Table":
        """The rows of these numbers."""
        return Table(*(column[index] for column in self))


class Errors(NamedTuple):
    """How far the network is from the table."""

    median_relative_error: float
    p90_relative_error: float
    rms_log_error: float


def read_table(path: Path, quantity: Quantity) -> Table:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    parts = np.array([[float(row[column]) for column in COLUMNS[quantity]] for row in rows])
    return Table(
        np.array([float(row["capacity_bytes"]) for row in rows]),
        np.array([float(row["width_bits"]) for row in rows]),
        np.log(parts.mean(axis=1) if quantity == "energy" else parts.sum(axis=1)),
    )


def initial_weights(rng: np.random.Generator) -> Weights:
    """A random start: units of assorted steepness and place, each with a small share in the sum."""
    return Weights(
        capacity_in=rng.normal(size=HIDDEN),
        width_in=rng.normal(size=HIDDEN),
        bias=rng.normal(size=HIDDEN),
        out=rng.normal(size=HIDDEN) - 2,
        capacity_slope=np.zeros(()),
        width_slope=np.zeros(()),
        offset=np.zeros(()),
    )


@partial(jax.jit, static_argnames=("width_sign", "steps"))
def train(weights: Weights, table: Table, width_sign: int, steps: int) -> Weights:
    """Full-batch AdamW on the mean squared error of the logarithm, the step size falling as a cosine."""
    optimizer = optax.adamw(optax.cosine_decay_schedule(LEARNING_RATE, steps), weight_decay=WEIGHT_DECAY)

    def loss(weights: Weights) -> jax.Array:
        capacity_bytes, width_bits = jnp.asarray(table.capacity_bytes), jnp.asarray(table.width_bits)
        predicted = log_network(weights, capacity_bytes, width_bits, width_sign, jnp)
        return jnp.mean((predicted - table.log_value) ** 2)

    def step(carry: tuple[Weights, Any], _: None) -> tuple[tuple[Weights, Any], None]:
        weights, state = carry
        updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
        return (optax.apply_updates(weights, updates), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, optimizer.init(weights)), None, length=steps)
    return weights


def errors(weights: Weights, table: Table, width_sign: int) -> Errors:
    residual = log_network(weights, table.capacity_bytes, table.width_bits, width_sign) - table.log_value
    relative = np.abs(np.expm1(residual))
    return Errors(
        round(float(np.median(relative)), 4),
        round(float(np.quantile(relative, 0.9)), 4),
        round(float(np.sqrt(np.mean(residual**2))), 4),
    )


def stored(weight: jax.Array) -> NDArray[np.float64]:
    """A weight as the file holds it, so that errors are measured on what ships."""
    return np.vectorize(lambda value: float(f"{value:.{STORED_DIGITS}g}"))(np.asarray(weight, dtype=np.float64))


def as_json(
    quantity: Quantity, weights: Weights, held: Table, train_errors: Errors, held_out_errors: Errors, rows: int
) -> str:
    """The weights file: one line a weight, and what is known of their making."""
    made_by = "made by benchmarks/train_sram_models.py"
    document = {
        "about": f"{ABOUT[quantity]} of an SRAM from its capacity and row width; {made_by}",
        "table": {"file": "data/cacti_sram_epa.csv", "tech_nm": 40, "type": "1rw_ram_itrs-hp_ED2", "rows": rows},
        "training": {"seed": SEED, "steps": STEPS, **train_errors._asdict()},
        "held_out": {
            **held_out_errors._asdict(),
            "rows": [[int(c), int(w)] for c, w in zip(held.capacity_bytes, held.width_bits, strict=True)],
        },
    }
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(w.tolist())}" for name, w in weights._asdict().items())
    return f'{{\n{head},\n "weights": {{\n{body}\n }}\n}}\n'


def main(quantity: Quantity) -> None:
    table, width_sign = read_table(TABLE, quantity), WIDTH_SIGNS[quantity]
    rows = len(table.capacity_bytes)
    rng = np.random.default_rng(SEED)
    shuffled = rng.permutation(rows)
    held_count = round(HELD_OUT_SHARE * rows)
    held, rest = table.rows(np.sort(shuffled[:held_count])), table.rows(np.sort(shuffled[held_count:]))

    weights = Weights(*map(stored, train(initial_weights(rng), rest, width_sign, STEPS)))
    train_errors, held_out_errors = errors(weights, rest, width_sign), errors(weights, held, width_sign)
    path = WEIGHTS / f"{quantity}_weights.json"
    write_text(path, as_json(quantity, weights, held, train_errors, held_out_errors, rows))

    print(f"{'relative error':<20} {'median':>8} {'90th pct':>9} {'rms log':>8}")
    for what, found in ((f"trained on {rows - held_count}", train_errors), (f"held out {held_count}", held_out_errors)):
        print(f"{what:<20} {found[0]:>8.2%} {found[1]:>9.2%} {found[2]:>8.4f}")
    print(f"\n{ABOUT[quantity]:<26} {'table':>10} {'network':>10} {'differs':>8}")
    for name, capacity_bytes, width_bits in REFERENCE_POINTS:
        here = (table.capacity_bytes == capacity_bytes) & (table.width_bits == width_bits)
        cacti = float(np.exp(table.log_value[here][0]))
        found = float(np.exp(log_network(weights, float(capacity_bytes), width_bits, width_sign)))
        print(f"{name:<26} {cacti:>10.5g} {found:>10.5g} {found / cacti - 1:>+8.1%}")
    print("CACTI's points are jagged: a smooth, increasing curve passes between them and must differ at single ones.")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    names = get_args(Quantity)
    if len(sys.argv) != 2 or sys.argv[1] not in names:
        sys.exit(f"say which network to train: {', '.join(names)}")
    main(sys.argv[1])
