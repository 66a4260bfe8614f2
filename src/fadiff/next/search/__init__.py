"""Search: one driver, one budget, one incumbent; a room for each family of methods."""
