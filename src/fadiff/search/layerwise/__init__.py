"""Searches that take every layer on its own: DOSA's gradient descent on a given machine, and ours without fusion."""

from fadiff.search.layerwise.method import LayerwiseSettings, layerwise, layerwise_tuned

__all__ = ["LayerwiseSettings", "layerwise", "layerwise_tuned"]
