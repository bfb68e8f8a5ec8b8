"""The options of `gnt-cluster modify`."""
