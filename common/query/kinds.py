"""What queries ask for, and what can have tags.

Source: luxid.md 2.2; opcodes.md 3.
"""

import enum


class QueryKind(enum.Enum):
    """What can be asked for; the first three only of luxid, the last two only by opcodes."""

    JOB = "job"
    LOCK = "lock"
    FILTER = "filter"
    NODE = "node"
    INSTANCE = "instance"
    GROUP = "group"
    NETWORK = "network"
    EXPORT = "export"
    CLUSTER = "cluster"
    OS = "os"


class TagKind(enum.Enum):
    """What can have tags."""

    CLUSTER = "cluster"
    NODEGROUP = "nodegroup"
    NODE = "node"
    INSTANCE = "instance"
    NETWORK = "network"
