"""Exact search: climbs over all layers at once, plans of groups, and the cheapest way to cut a network into them."""
