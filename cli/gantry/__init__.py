"""The verbs of `gantry`: the daemons of an installation."""
