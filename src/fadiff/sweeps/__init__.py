"""Sweeps: many searches, on this computer or on a cluster, in a table that goes on where it stopped."""
