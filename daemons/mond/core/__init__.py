"""What reports and numbers look like; no I/O, no clock."""
