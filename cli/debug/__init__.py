"""The verbs of `gnt-debug`, one a module."""
