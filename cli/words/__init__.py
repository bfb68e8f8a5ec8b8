"""Values of the queue as words."""
