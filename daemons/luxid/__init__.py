"""luxid, the queue daemon: keeps jobs, decides which may run, starts a process for each."""
