"""`gantry locks`: the same as `gnt-debug locks`, which only those find who debug."""

from cli.debug.locks import locks as locks
