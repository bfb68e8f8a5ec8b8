"""luxid itself: its health, its metrics, the copies of its files, and its move to another node."""
