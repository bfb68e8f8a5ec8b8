"""The collectors; each has a thread and a timer of its own."""
