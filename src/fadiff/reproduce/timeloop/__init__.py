"""The model against Timeloop: both tools price the same random mappings, and every difference is explained."""
