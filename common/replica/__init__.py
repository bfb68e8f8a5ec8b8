"""The copies of this node's state in the cluster: how a change reaches them, and what they lack."""
