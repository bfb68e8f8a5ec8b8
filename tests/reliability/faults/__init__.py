"""Every system call of a run fails once."""
