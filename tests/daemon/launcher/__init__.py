"""The launcher as a process of root."""
