"""Properties of the core of noded."""
