"""The verbs of `gnt-job`, one a module."""
