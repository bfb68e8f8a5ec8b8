"""Numbers for Prometheus: what the daemons tell of themselves, and what rapid counts of its own work."""
