"""luxid's parts that are there only in a cluster of several nodes."""
