"""The verbs of `gantry user`."""
