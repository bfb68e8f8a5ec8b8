"""Which events of jobs are to be told."""
