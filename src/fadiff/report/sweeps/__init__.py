"""A sweep as one HTML page: everything inlined, no script, light and dark."""

from fadiff.report.sweeps.page import measure_of, sweep_html

__all__ = ["measure_of", "sweep_html"]
