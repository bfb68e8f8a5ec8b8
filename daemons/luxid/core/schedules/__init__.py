"""Which runs of schedules are due, and what becomes of them."""
