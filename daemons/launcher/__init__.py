"""gantry-launcher: starts commands as other users, as root; it has no opcodes and no plug-ins."""
