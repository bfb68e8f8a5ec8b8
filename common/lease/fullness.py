"""How full etcd is, and what may still be put there.

Source: lease.md 5.
"""

import enum


class Fullness(enum.IntEnum):
    """Each one includes those before."""

    FINE = 0
    # an operator should look
    WARN = 1
    # what can wait should
    SLOW = 2
    # the rest is for what starts and ends jobs and empties etcd
    RESERVED = 3
    # etcd itself refuses all but deletions
    FULL = 4
