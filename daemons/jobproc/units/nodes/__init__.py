"""The opcodes on nodes: `add`, `remove`, `setparams`; what they decide is in `roles` and `parameters`."""
