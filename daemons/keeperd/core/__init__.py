"""What keeperd does next; no I/O, no clock."""
