"""Trains the capacity -> energy network on the CACTI table and writes the weights that the package ships.

    python -m benchmarks.train_energy_model

A fifth of the rows, drawn at random, is held out; the network that ships is the one trained without them, so the
errors written beside its weights are its own. The seed fixes the split and the start; arithmetic of another processor
may change the last digits of the weights, so what the project computes with is the file, not a new training.
"""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from fadiff.files import write_text
from fadiff.hardware.energy_model import Weights, log_pj_per_byte

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "data" / "cacti_sram_epa.csv"
WEIGHTS = ROOT / "src" / "fadiff" / "hardware" / "energy_weights.json"

SEED = 0
HIDDEN = 16
HELD_OUT_SHARE = 0.2
STEPS = 5000
LEARNING_RATE = 0.02
WEIGHT_DECAY = 1e-3
STORED_DIGITS = 7

# Where the two published configurations read the table: (name, capacity, row width, bytes a word, table's pJ a word).
# The last one, a bank of 512 bytes, is read at the table's edge of 1 KB.
REFERENCE_POINTS = (
    ("gemmini-large L2", 512 * 1024, 128, 1, 3.428987),
    ("gemmini-large L1", 2 * 1024, 32, 4, 1.661825),
    ("gemmini-small L2", 8 * 1024, 128, 1, 0.448258),
    ("gemmini-small L1", 512, 32, 4, 1.153116),
)


class Table(NamedTuple):
    """Rows of the CACTI table as columns: float64 [rows]."""

    capacity_bytes: NDArray[np.float64]
    width_bits: NDArray[np.float64]
    log_pj_per_byte: NDArray[np.float64]

    def rows(self, index: NDArray[np.int64]) -> "Table":
        """The rows of these numbers."""
        return Table(*(column[index] for column in self))


class Errors(NamedTuple):
    """How far the network is from the table."""

    median_relative_error: float
    p90_relative_error: float
    rms_log_error: float


def read_table(path: Path) -> Table:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return Table(
        np.array([float(row["capacity_bytes"]) for row in rows]),
        np.array([float(row["width_bits"]) for row in rows]),
        np.log([(float(row["read_pj_per_byte"]) + float(row["write_pj_per_byte"])) / 2 for row in rows]),
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


@partial(jax.jit, static_argnames="steps")
def train(weights: Weights, table: Table, steps: int) -> Weights:
    """Full-batch AdamW on the mean squared error of ln pJ, the step size falling as a cosine."""
    optimizer = optax.adamw(optax.cosine_decay_schedule(LEARNING_RATE, steps), weight_decay=WEIGHT_DECAY)

    def loss(weights: Weights) -> jax.Array:
        predicted = log_pj_per_byte(weights, jnp.asarray(table.capacity_bytes), jnp.asarray(table.width_bits), jnp)
        return jnp.mean((predicted - table.log_pj_per_byte) ** 2)

    def step(carry: tuple[Weights, Any], _: None) -> tuple[tuple[Weights, Any], None]:
        weights, state = carry
        updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
        return (optax.apply_updates(weights, updates), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, optimizer.init(weights)), None, length=steps)
    return weights


def errors(weights: Weights, table: Table) -> Errors:
    residual = log_pj_per_byte(weights, table.capacity_bytes, table.width_bits) - table.log_pj_per_byte
    relative = np.abs(np.expm1(residual))
    return Errors(
        round(float(np.median(relative)), 4),
        round(float(np.quantile(relative, 0.9)), 4),
        round(float(np.sqrt(np.mean(residual**2))), 4),
    )


def stored(weight: jax.Array) -> NDArray[np.float64]:
    """A weight as the file holds it, so that errors are measured on what ships."""
    return np.vectorize(lambda value: float(f"{value:.{STORED_DIGITS}g}"))(np.asarray(weight, dtype=np.float64))


def as_json(weights: Weights, held: Table, train_errors: Errors, held_out_errors: Errors, rows: int) -> str:
    """The weights file: one line a weight, and what is known of their making."""
    document = {
        "about": "ln(pJ/byte) of an SRAM from its capacity and row width; made by benchmarks/train_energy_model.py",
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


def main() -> None:
    table = read_table(TABLE)
    rows = len(table.capacity_bytes)
    rng = np.random.default_rng(SEED)
    shuffled = rng.permutation(rows)
    held_count = round(HELD_OUT_SHARE * rows)
    held, rest = table.rows(np.sort(shuffled[:held_count])), table.rows(np.sort(shuffled[held_count:]))

    weights = Weights(*map(stored, train(initial_weights(rng), rest, STEPS)))
    train_errors, held_out_errors = errors(weights, rest), errors(weights, held)
    write_text(WEIGHTS, as_json(weights, held, train_errors, held_out_errors, rows))

    print(f"{'relative error':<20} {'median':>8} {'90th pct':>9} {'rms log':>8}")
    for what, found in ((f"trained on {rows - held_count}", train_errors), (f"held out {held_count}", held_out_errors)):
        print(f"{what:<20} {found[0]:>8.2%} {found[1]:>9.2%} {found[2]:>8.4f}")
    print(f"\n{'pJ a word':<20} {'table':>8} {'network':>9} {'differs':>8}")
    for name, capacity_bytes, width_bits, word_bytes, table_pj in REFERENCE_POINTS:
        pj = word_bytes * float(np.exp(log_pj_per_byte(weights, float(capacity_bytes), width_bits)))
        print(f"{name:<20} {table_pj:>8.4f} {pj:>9.4f} {pj / table_pj - 1:>+8.1%}")
    print("CACTI's points are jagged: a smooth, increasing curve passes between them and must differ at single ones.")
    print(f"wrote {WEIGHTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
