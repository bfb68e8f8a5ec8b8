"""The enumerations of the configuration, and the types of its ids.

Source: wconfd.md 7.3.
"""

import enum
from typing import NewType

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
