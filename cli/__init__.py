"""The command line: one module a command group; prints, never decides."""
