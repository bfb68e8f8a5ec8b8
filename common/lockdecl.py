"""What locks an opcode will ask for, as far as its parameters tell before it runs.

luxid predicts contention from it, the job process turns the known names into requests.

Source: predictive-queue design, "Static locks"; luxid.md 5.11.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping

import attrs

from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest, group_lock, member_lock


class Scope(enum.Enum):
    NAMED = "named"
    UNKNOWN = "unknown"  # some locks of the level; which ones is known only while it runs
    ALL = "all"


@attrs.frozen
class LevelDeclaration:
    """The locks of one mode on one level."""

    mode: LockMode
    scope: Scope
    # empty unless the scope is NAMED
    names: frozenset[str] = frozenset()


@attrs.frozen
class LockDeclaration:
    """All locks of an opcode; a level that is absent has none. `bgl` None: not even the BGL."""

    bgl: LockMode | None = LockMode.SHARED
    # most levels have one entry; two when names of both modes are wanted
    levels: Mapping[LockLevel, tuple[LevelDeclaration, ...]] = attrs.field(factory=dict)

    @property
    def is_big_lock(self) -> bool:
        return self.bgl is LockMode.EXCLUSIVE


NO_LOCKS = LockDeclaration()


_OBJECT_LEVELS = tuple(level for level in LockLevel if level not in (LockLevel.CLUSTER, LockLevel.CONFIG))


def declare(locks: Mapping[Lock, LockMode]) -> LockDeclaration:
    """The declaration of an opcode that knows all its locks by name; the BGL is shared unless named."""
    levels = {level: tuple(_entries(level, locks)) for level in _OBJECT_LEVELS}
    return LockDeclaration(locks.get(BGL, LockMode.SHARED), {level: found for level, found in levels.items() if found})


def _entries(level: LockLevel, locks: Mapping[Lock, LockMode]) -> Iterator[LevelDeclaration]:
    for mode in LockMode:
        named = [lock for lock, wanted in locks.items() if lock.level is level and wanted is mode]
        if group_lock(level) in named:
            yield LevelDeclaration(mode, Scope.ALL)
        elif named:
            yield LevelDeclaration(mode, Scope.NAMED, frozenset(lock.name for lock in named))


def requests_for(level: LockLevel, entries: Iterable[LevelDeclaration]) -> list[LockRequest]:
    """The lock requests that a level's declaration stands for; UNKNOWN stands for none yet."""
    requests: list[LockRequest] = []
    for entry in entries:
        if entry.scope is Scope.ALL:
            requests.append(LockRequest(group_lock(level), entry.mode))
        elif entry.scope is Scope.NAMED:
            requests += [LockRequest(member_lock(level, name), entry.mode) for name in sorted(entry.names)]
    return requests
