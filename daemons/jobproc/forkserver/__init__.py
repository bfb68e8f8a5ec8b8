"""The process that forks the job processes."""
