"""The state of nodes and copies, as lines for several verbs."""
