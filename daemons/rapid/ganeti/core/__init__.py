"""From a request to the opcodes or the LUXI request that it means, and from errors to statuses: no I/O, no clock."""
