"""The core rebuilt for any machine: edition 2 of the model, growing beside edition 1 until it takes its place.

Its folders bear the names of those they replace; nothing outside this package imports it yet.
"""
