"""Which ended jobs, outputs and histories are kept, and which are removed."""
