"""Co-design by gradient against other searches over machines."""
