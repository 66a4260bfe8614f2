"""Runs a schedule on real integers: a witness that shares nothing with the cost model."""
