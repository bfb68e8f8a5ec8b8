"""The mastership under a lease, with real processes."""
