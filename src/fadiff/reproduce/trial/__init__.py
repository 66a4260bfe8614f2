"""Networks as people bring them, read and scheduled as they come."""
