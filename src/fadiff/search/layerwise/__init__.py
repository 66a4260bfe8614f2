"""Searches that take every layer on its own: DOSA's gradient descent on a fixed machine, and ours without fusion."""

from fadiff.search.layerwise.method import LayerwiseOptions, layerwise, layerwise_tuned

__all__ = ["LayerwiseOptions", "layerwise", "layerwise_tuned"]
