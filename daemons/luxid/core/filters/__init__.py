"""What the filter rules say of jobs."""
