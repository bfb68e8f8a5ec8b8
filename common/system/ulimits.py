"""The kernel's process limits that a command may have, by their names in setrlimit(2)."""

from typing import Final

ULIMITS: Final = (
    *("as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "rtprio", "rttime"),
    *("sigpending", "stack"),
)
