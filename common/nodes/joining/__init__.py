"""What a machine needs to join, and what the cluster gives it."""
