"""The index of ended jobs on this node, derived from job files."""
