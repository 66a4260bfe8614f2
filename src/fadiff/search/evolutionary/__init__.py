"""Searches that vary whole schedules as integers: genetic, Bayesian, random. All repair and price in the same way."""
