"""The kernel's limits of processes that a command may have, as setrlimit(2) calls them."""

from typing import Final

ULIMITS: Final = (
    *("as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "rtprio", "rttime"),
    *("sigpending", "stack"),
)
