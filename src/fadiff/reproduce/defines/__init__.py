"""The model against DeFiNES: fused stacks on one Gemmini (`stacks`), and whole networks on its own machines."""
