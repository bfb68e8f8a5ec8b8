"""The configuration on the other nodes: `contents` are made for `followers`, one a node, by the `nodesdistribution`."""
