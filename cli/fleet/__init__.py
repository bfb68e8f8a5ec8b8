"""One command on many nodes: which nodes, one job for each, and how far they are."""
