"""The means that look for lost promises: each system call fails once, and power is cut at each point of a run."""
