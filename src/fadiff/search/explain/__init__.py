"""What the search can say about a finished schedule: why tensors leave the chip, and what another machine would do."""
