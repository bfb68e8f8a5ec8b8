"""noded: the node daemon, on every node; it takes files from the master and tells facts of its node."""
