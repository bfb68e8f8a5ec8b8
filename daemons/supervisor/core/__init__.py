"""What the supervisor decides; no I/O."""
