"""Scripts that make the data and the figures the project ships; none is part of the package."""
