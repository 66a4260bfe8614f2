"""FADiff."""
