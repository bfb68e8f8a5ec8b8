"""Lock names, their linear order and groups, modes, requests, and owners.

Theory. All locks of the cluster lie on one line. A level is a stretch of that line; it begins
with the level's group lock (`node/[lockset]`), then come the members by name (code points).
Holding a group acts like holding every member in that mode (`conflicts`). Two locks are special: the BGL is
an ordinary member of the cluster's group, and `cluster/config` is the greatest of all, belongs
to no group, and has a level of its own although its name begins with `cluster/`.
Locks are neither created nor deleted: every well-formed name can be locked at any time.

Source: daemons design, "Locking"; wconfd.md sections 3 and 4.
"""

import enum
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.shapes import OwnForm


class LockLevel(enum.Enum):
    """One stretch of the linear order; the value is its name on the wire."""

    CLUSTER = "cluster"
    INSTANCE = "instance"
    NODEGROUP = "nodegroup"
    NODE = "node"
    NODE_RES = "node-res"
    NETWORK = "network"
    CONFIG = "config"

    # members are singletons; the hash of Enum is slow, and levels are keys everywhere
    __hash__ = object.__hash__

    @classmethod
    def parse(cls, text: object) -> "LockLevel":
        """Raises: InvalidRequest: the level is unknown; the message lists all levels."""
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(level.value for level in cls)
            raise InvalidRequest(f"unknown lock level {text!r}; levels are {known}", level=str(text)) from None


class LockMode(enum.Enum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"

    # members are singletons; the hash of Enum is slow, and modes are parts of keys
    __hash__ = object.__hash__

    def covers(self, other: "LockMode | None") -> bool:
        """Whether holding this mode is at least as strong as `other` (none < shared < exclusive)."""
        return other is None or self is LockMode.EXCLUSIVE or other is LockMode.SHARED

    def excludes(self, other: "LockMode") -> bool:
        """Whether two owners cannot hold overlapping locks in these modes; see `conflicts`."""
        return self is LockMode.EXCLUSIVE or other is LockMode.EXCLUSIVE


# characters of the name after the level; no host name is longer
LONGEST_NAME: Final = 255
_RELEASE: Final = "release"
_SET: Final = "[lockset]"
# position of the level's group lock; its members have the next number
_RANKS: Final = {
    LockLevel.CLUSTER: 0,
    LockLevel.INSTANCE: 2,
    LockLevel.NODEGROUP: 4,
    LockLevel.NODE: 6,
    LockLevel.NODE_RES: 8,
    LockLevel.NETWORK: 10,
}
_CONFIG_RANK: Final = 12
_LEVEL_OF_RANK: Final = {rank // 2: level for level, rank in _RANKS.items()} | {6: LockLevel.CONFIG}


@attrs.frozen(order=False, cache_hash=True, repr=False)
class Lock:
    """One name in the linear order; compares by its place there. Make one with `parse_lock`."""

    # twice the number of its level, plus one for a member
    rank: int
    # the part after the slash; "" for a group lock and for cluster/config
    name: str

    @property
    def level(self) -> LockLevel:
        return _LEVEL_OF_RANK[self.rank // 2]

    @property
    def is_group(self) -> bool:
        return self.rank % 2 == 0 and self.rank != _CONFIG_RANK

    @property
    def group(self) -> "Lock | None":
        """The group of this lock; None for a group itself and for `cluster/config`."""
        return _GROUPS[self.rank - 1] if self.rank % 2 else None

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the linear order: a fast sort key, as comparing locks is slow."""
        return (self.rank, self.name)

    # written by hand: the methods that attrs generates take twenty times as long
    def __lt__(self, other: "Lock") -> bool:
        return (self.rank, self.name) < (other.rank, other.name)

    def __le__(self, other: "Lock") -> bool:
        return (self.rank, self.name) <= (other.rank, other.name)

    def __gt__(self, other: "Lock") -> bool:
        return (self.rank, self.name) > (other.rank, other.name)

    def __ge__(self, other: "Lock") -> bool:
        return (self.rank, self.name) >= (other.rank, other.name)

    def __str__(self) -> str:
        if self.rank == _CONFIG_RANK:
            return "cluster/config"
        return f"{self.level.value}/{_SET if self.is_group else self.name}"

    __repr__ = __str__


_GROUPS: Final = {rank: Lock(rank, "") for rank in _RANKS.values()}
BGL: Final = Lock(1, "BGL")
CONFIG_LOCK: Final = Lock(_CONFIG_RANK, "")


def group_lock(level: LockLevel) -> Lock:
    """The lock over all of `level`; not defined for the config level."""
    return _GROUPS[_RANKS[level]]


def member_lock(level: LockLevel, name: str) -> Lock:
    """The lock of one named object, or of the whole level for the name `[lockset]`; not for cluster and config."""
    return group_lock(level) if name == _SET else Lock(_RANKS[level] + 1, name)


def meets(a: Lock, b: Lock) -> bool:
    """Whether two locks overlap: they are the same lock, or a group and its member."""
    return a == b or a.group == b or b.group == a


def conflicts(a: Lock, mode: LockMode, b: Lock, other: LockMode) -> bool:
    """Whether two owners cannot hold `a` in `mode` and `b` in `other` at the same time.

    This is the rule. Indexes of it (`LockTable.wall`, `PendingRequest.conflicts_with`,
    predictions and simulations) are compared with it by `tests/property/wconfd/test_lock_conflicts.py`.
    """
    return mode.excludes(other) and meets(a, b)


# to call the class takes ten times as long
_LEVELS: Final = {level.value: level for level in LockLevel}


def read_lock(text: str) -> Lock:
    """Read a lock's name in its wire form.

    Raises: InvalidRequest: unknown level, no slash, or `cluster/` with another name than
        `[lockset]`, `BGL` and `config`.
    """
    if text == "cluster/config":
        return CONFIG_LOCK
    prefix, slash, name = text.partition("/")
    if not slash:
        raise InvalidRequest(f"lock name {text!r} has no level; write it as 'node/NAME'", lock=text)
    level = _LEVELS.get(prefix) or LockLevel.parse(prefix)
    if level is LockLevel.CONFIG:
        raise InvalidRequest(f"no lock is named {text!r}; the configuration's is 'cluster/config'", lock=text)
    if name == _SET:
        return group_lock(level)
    if level is LockLevel.CLUSTER and name != "BGL":
        raise InvalidRequest(f"no cluster lock is named {text!r}; there are BGL, config and [lockset]", lock=text)
    return Lock(_RANKS[level] + 1, name)


# for callers that see the same names again and again; the opcodes of a long queue would fill it in vain
parse_lock: Final = lru_cache(maxsize=65536)(read_lock)


def asked_lock(lock: Lock) -> Lock:
    """Check a lock that a client requests, and return it.

    Raises: InvalidRequest: the name is longer than any object's, or would garble a list of locks.
    """
    if len(lock.name) > LONGEST_NAME:
        raise InvalidRequest(
            f"the lock name '{str(lock)[:40]}...' has {len(lock.name)} characters after its level, "
            f"of at most {LONGEST_NAME}",
            limit=LONGEST_NAME,
        )
    if not lock.name.isprintable():
        raise InvalidRequest(f"the lock name {str(lock)!r} has characters that cannot be printed; leave them out")
    return lock


@attrs.frozen(order=False)
class LockRequest:
    """One item of a request: set this lock to this mode, or release it (mode None)."""

    lock: Lock
    mode: LockMode | None

    def sort_key(self) -> tuple[int, str, int]:
        """release < shared < exclusive within a lock"""
        return (*self.lock.place, mode_rank(self.mode))

    def to_wire(self) -> list[str]:
        return [str(self.lock), self.mode.value if self.mode else _RELEASE]

    @classmethod
    def from_wire(cls, item: object) -> "LockRequest":
        """Raises: InvalidRequest: the item is not [lock name, shared|exclusive|release]."""
        name, mode = _pair(item, "a lock request is [lock, mode]")
        return cls(parse_lock(name), None if mode == _RELEASE else parse_mode(mode))


def mode_rank(mode: LockMode | None) -> int:
    """0 for none, 1 for shared, 2 for exclusive."""
    return 0 if mode is None else 1 if mode is LockMode.SHARED else 2


def parse_mode(text: object) -> LockMode:
    """Raises: InvalidRequest: the text is neither `shared` nor `exclusive`."""
    try:
        return LockMode(text)
    except ValueError:
        raise InvalidRequest(f"unknown lock mode {text!r}; modes are shared and exclusive", mode=str(text)) from None


def owned_from_wire(item: object) -> tuple[Lock, LockMode]:
    """Read `[lock, mode]`. Raises: InvalidRequest."""
    name, mode = _pair(item, "a held lock is [lock, mode]")
    return parse_lock(name), parse_mode(mode)


def owned_to_wire(owned: Iterable[tuple[Lock, LockMode]]) -> list[list[str]]:
    return [[str(lock), mode.value] for lock, mode in owned]


def _pair(item: object, what: str) -> tuple[str, str]:
    match item:
        case [str() as first, str() as second]:
            return first, second
        case _:
            raise InvalidRequest(f"{what}, both strings; got {item!r}")


@attrs.frozen(cache_hash=True, order=False, repr=False)
class Owner(OwnForm):
    """A holder of locks: (job id or name, livelock path). The pid is the target of SIGHUP.

    The pid appears in listings, but is not part of the identity (DESIGN section 4).
    """

    # a job's number, or the name of another client; "12" is not job 12
    ident: int | str
    # absolute path; the kernel's lock on it proves that the owner lives
    livelock: str
    pid: int | None = attrs.field(default=None, eq=False)

    def sort_key(self) -> tuple[bool, int, str, str]:
        """Names before jobs, names by code point, jobs by number, then by path."""
        if isinstance(self.ident, int):
            return (True, self.ident, "", self.livelock)
        return (False, 0, self.ident, self.livelock)

    def __str__(self) -> str:
        return f"job/{self.ident}" if isinstance(self.ident, int) else self.ident

    __repr__ = __str__

    def to_wire(self) -> list[int | str]:
        """Two parts, or three if the pid is known."""
        return [self.ident, self.livelock] if self.pid is None else [self.ident, self.livelock, self.pid]

    @classmethod
    def from_wire(cls, value: object) -> "Owner":
        """Raises: InvalidRequest: the value is not `[job id or name, livelock path]` with an optional pid."""
        match value:
            case [ident, str() as livelock]:
                return cls(_ident(ident), livelock)
            case [ident, str() as livelock, int() as pid] if not isinstance(pid, bool):
                return cls(_ident(ident), livelock, pid)
            case _:
                raise InvalidRequest(f"an owner is [job id or name, livelock path, optional pid]; got {value!r}")


def _ident(value: object) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise InvalidRequest(f"an owner's id is a job number >= 0 or a name; got {value!r}")
