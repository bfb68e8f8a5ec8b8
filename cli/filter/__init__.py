"""The verbs of `gnt-filter`, one a module."""
