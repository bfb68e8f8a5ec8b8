"""The enumerations of the configuration, and the types of its ids.

Source: wconfd.md 7.3.
"""

import enum
import re
from collections.abc import Iterable, Sequence
from typing import Final, NewType

from common.errors import TagError

NodeUuid = NewType("NodeUuid", str)
GroupUuid = NewType("GroupUuid", str)
InstanceUuid = NewType("InstanceUuid", str)
NetworkUuid = NewType("NetworkUuid", str)
DiskUuid = NewType("DiskUuid", str)
FilterUuid = NewType("FilterUuid", str)

# size of memory; read from a number, or from text with a unit such as "2g"
Mebibytes = NewType("Mebibytes", int)


class Hypervisor(enum.Enum):
    KVM = "kvm"
    XEN_PVM = "xen-pvm"
    CHROOT = "chroot"
    XEN_HVM = "xen-hvm"
    LXC = "lxc"
    FAKE = "fake"


class DiskTemplate(enum.Enum):
    DISKLESS = "diskless"
    FILE = "file"
    SHAREDFILE = "sharedfile"
    PLAIN = "plain"
    BLOCKDEV = "blockdev"
    DRBD = "drbd"
    RBD = "rbd"
    EXT = "ext"
    GLUSTER = "gluster"


class NicMode(enum.Enum):
    BRIDGED = "bridged"
    ROUTED = "routed"
    OPENVSWITCH = "openvswitch"
    POOL = "pool"
    EXT = "ext"


class AllocPolicy(enum.Enum):
    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class AdminState(enum.Enum):
    UP = "up"
    DOWN = "down"
    OFFLINE = "offline"


class AdminStateSource(enum.Enum):
    ADMIN = "admin"
    USER = "user"


class DiskMode(enum.Enum):
    READ_ONLY = "ro"
    READ_WRITE = "rw"


class SshKeyType(enum.Enum):
    RSA = "rsa"
    DSA = "dsa"
    ECDSA = "ecdsa"


# Numbers of the configuration, which may have a fraction.
#
# Theory. Ganeti's daemons write a number without a fraction as a whole one (`1`, never `1.0`), whatever its field may
# hold, and its programs and people compare texts. A value comes from files, from options and from sums, so each field
# makes it so itself.


def plain(value: float) -> float:
    """The same number; an `int` if it has no fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The kinds of objects that can be queried, and those that can have tags.
#
# Source: luxid.md 2.2; opcodes.md 3.


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


# Names as people write them: their order (`node2` before `node10`), and the short forms of host names.


_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)


def natural_key(name: str) -> tuple[str | int, ...]:
    """A sort key that compares runs of digits as numbers, and the rest by code points."""
    # text and digits alternate, so parts of one type are compared
    return tuple(int(part) if index % 2 else part for index, part in enumerate(_DIGITS.split(name)))


def short_names(name: str) -> Sequence[str]:
    """The short forms of a host name: of `a.b.c` these are `a` and `a.b`."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


# The rules of tags: short words that users put on the cluster and its objects.
#
# Source: opcodes.md 4; Ganeti's `gnt-cluster add-tags` (seen).


# characters of a tag
LONGEST: Final = 128
# tags of one object
MOST: Final = 4096
_TAG: Final = re.compile(r"[\w.+*/:@-]+", re.ASCII)


def check_tags(tags: Iterable[str]) -> None:
    """Raises: TagError: one is empty, too long, or has other characters than tags may have."""
    for tag in tags:
        if not tag:
            raise TagError("a tag must not be empty")
        if len(tag) > LONGEST:
            raise TagError(f"the tag '{tag:.40}...' has {len(tag)} characters; at most {LONGEST} are allowed")
        if not _TAG.fullmatch(tag):
            raise TagError(f"the tag {tag!r} has other characters than letters, digits and .+*/:@-_")


def check_count(count: int) -> None:
    """Raises: TagError: an object cannot have so many tags."""
    if count > MOST:
        raise TagError(f"the object would have {count} tags; at most {MOST} are allowed")
