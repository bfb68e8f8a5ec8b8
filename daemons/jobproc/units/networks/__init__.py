"""The opcodes on networks; what values are good is in `networkvalues`, finding objects in `networklookup`."""
