"""Everything at once, for long."""
