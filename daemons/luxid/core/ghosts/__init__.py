"""What becomes of ghosts: what jobs claim under a new master, and what is asked of the nodes."""
