"""The kinds of objects that can be queried, and those that can have tags.

Source: luxid.md 2.2; opcodes.md 3.
"""

import enum


class QueryKind(enum.Enum):
    """A kind of objects to query; the first three only by luxid, the last two only by opcodes."""

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
    """A kind of objects with tags."""

    CLUSTER = "cluster"
    NODEGROUP = "nodegroup"
    NODE = "node"
    INSTANCE = "instance"
    NETWORK = "network"
