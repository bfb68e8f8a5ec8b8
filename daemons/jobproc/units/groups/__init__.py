"""The opcodes on node groups; what they change of instance policies and parameters is decided in `values`."""
