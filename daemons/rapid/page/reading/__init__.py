"""What the pages ask luxid, in the caller's name. The number of calls never depends on the number of jobs."""
