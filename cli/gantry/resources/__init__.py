"""The verbs of `gantry resource`."""
