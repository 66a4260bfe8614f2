"""Experiments of the rebuilt core: what the paper reports, measured again."""
