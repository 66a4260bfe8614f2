"""The cost model of edition 2, once, for arrays."""
