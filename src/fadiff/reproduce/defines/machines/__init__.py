"""Networks on DeFiNES' own machines: what fusion saves there, and why the two models differ where they do."""
