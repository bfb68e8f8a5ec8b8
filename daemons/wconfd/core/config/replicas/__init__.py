"""What other nodes have of the configuration, and what a new master makes of it; no I/O, no clock."""
