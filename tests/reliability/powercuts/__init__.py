"""Power cuts: what a disk may have lost, at each point of a recorded run."""
