"""Proofs: a lower bound of what any schedule can cost."""
