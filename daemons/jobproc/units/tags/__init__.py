"""The opcodes on tags, which the cluster, nodes, node groups, instances and networks have."""
