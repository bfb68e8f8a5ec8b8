"""What becomes of work when a master under a lease dies, is cut off, or wakes up too late."""
