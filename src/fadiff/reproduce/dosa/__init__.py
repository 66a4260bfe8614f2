"""DOSA's co-design, on its own layers and energies, beside ours."""
