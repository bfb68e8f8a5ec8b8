"""The verbs of `gantry token`."""
