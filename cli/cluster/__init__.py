"""The verbs of `gnt-cluster`, one a module."""
