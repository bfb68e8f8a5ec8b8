"""Batches: jobs that were submitted together, for several nodes or values."""
