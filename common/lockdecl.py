"""The locks that an opcode will request, as far as its parameters tell before it runs.

luxid uses them to predict contention; the job process turns the known names into requests.

Theory. An opcode class states rules: for each level a mode, and either a scope or the parameters
that name objects. The declaration of an opcode follows from the rules and its values. Instances are locked by
name, all other objects by uuid; so a parameter that names a node, a group or a network needs a
resolver, unless the matching uuid parameter is given. A name that cannot be resolved makes its level unknown.

Source: predictive-queue design, "Static locks"; luxid.md 5.11.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

import attrs

from common.locks import BGL, Lock, LockLevel, LockMode, LockRequest, group_lock, member_lock


class Scope(enum.Enum):
    NAMED = "named"
    UNKNOWN = "unknown"  # some locks of the level, known only when the opcode runs
    ALL = "all"

    # as members are single; the one of Enum is slow, and scopes are parts of keys
    __hash__ = object.__hash__


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
    # one entry for most levels; two when names of both modes are wanted
    levels: Mapping[LockLevel, tuple[LevelDeclaration, ...]] = attrs.field(factory=dict)

    @property
    def is_big_lock(self) -> bool:
        return self.bgl is LockMode.EXCLUSIVE

    def wide_locks(self) -> Iterator[Lock]:
        """The locks that block everybody: the BGL if exclusive (every job shares it), and whole levels in any mode."""
        if self.is_big_lock:
            yield BGL
        for level, entries in self.levels.items():
            yield from (request.lock for request in requests_for(level, entries) if request.lock.is_group)


# iteration over an enum class is slow, and all opcodes of a queue are declared
_LEVELS: Final = tuple(LockLevel)
_MODES: Final = tuple(LockMode)
NO_LOCKS = LockDeclaration()
BIG_LOCK: Final = LockDeclaration(LockMode.EXCLUSIVE)


def declare(locks: Mapping[Lock, LockMode]) -> LockDeclaration:
    """Return the declaration of an opcode that knows all its locks by name; the BGL is shared unless named.

    Args:
        locks: locks that `is_declarable` accepts.
    """
    if not locks:
        return NO_LOCKS
    wanted: dict[LockLevel, dict[LockMode, list[Lock]]] = {}
    for lock, mode in locks.items():
        wanted.setdefault(lock.level, {}).setdefault(mode, []).append(lock)
    wanted.pop(LockLevel.CLUSTER, None)
    bgl = locks.get(BGL, LockMode.SHARED)
    return LockDeclaration(bgl, {level: tuple(_entries(level, wanted[level])) for level in _LEVELS if level in wanted})


def is_declarable(lock: Lock) -> bool:
    """Whether an opcode may name this lock: the BGL, and all locks outside the cluster and config levels."""
    return lock == BGL or lock.level not in (LockLevel.CLUSTER, LockLevel.CONFIG)


def _entries(level: LockLevel, by_mode: Mapping[LockMode, list[Lock]]) -> Iterator[LevelDeclaration]:
    for mode in _MODES:
        if (named := by_mode.get(mode)) is not None:
            if group_lock(level) in named:
                yield LevelDeclaration(mode, Scope.ALL)
            else:
                yield LevelDeclaration(mode, Scope.NAMED, frozenset([lock.name for lock in named]))


def requests_for(level: LockLevel, entries: Iterable[LevelDeclaration]) -> list[LockRequest]:
    """The lock requests of a level's declaration; UNKNOWN has none yet."""
    requests: list[LockRequest] = []
    for entry in entries:
        if entry.scope is Scope.ALL:
            requests.append(LockRequest(group_lock(level), entry.mode))
        elif entry.scope is Scope.NAMED:
            requests += [LockRequest(member_lock(level, name), entry.mode) for name in sorted(entry.names)]
    return requests


# (level, name of an object as users write it) -> name of its lock; None: the object does not exist
Resolver = Callable[[LockLevel, str], str | None]


@attrs.frozen
class LevelRule:
    """How one level's locks follow from an opcode's parameters."""

    mode: LockMode
    # NAMED: names come from the parameters below
    scope: Scope
    # parameters that hold a name, or a list of names, of existing objects
    existing: tuple[str, ...] = ()
    # parameters that name new objects: the name is the lock's
    new: tuple[str, ...] = ()
    # scope when none of the parameters is set
    unset: Scope = Scope.UNKNOWN
    # whether there are further locks that no parameter names
    and_others: bool = False


LockRules = Mapping[LockLevel, LevelRule]

ALL_SHARED: Final = LevelRule(LockMode.SHARED, Scope.ALL)
ALL_EXCLUSIVE: Final = LevelRule(LockMode.EXCLUSIVE, Scope.ALL)
SOME_SHARED: Final = LevelRule(LockMode.SHARED, Scope.UNKNOWN)
SOME_EXCLUSIVE: Final = LevelRule(LockMode.EXCLUSIVE, Scope.UNKNOWN)


def shared(*existing: str, unset: Scope = Scope.UNKNOWN) -> LevelRule:
    """Shared locks of the objects that these parameters name."""
    return LevelRule(LockMode.SHARED, Scope.NAMED, existing, unset=unset)


def exclusive(
    *existing: str, new: tuple[str, ...] = (), unset: Scope = Scope.UNKNOWN, and_others: bool = False
) -> LevelRule:
    """Exclusive locks of the objects that these parameters name."""
    return LevelRule(LockMode.EXCLUSIVE, Scope.NAMED, existing, new, unset, and_others)


def apply_rules(rules: LockRules, op: object, resolve: Resolver | None = None) -> LockDeclaration:
    """Return the declaration of the opcode `op` by its class's rules; the BGL is shared.

    Args:
        resolve: without one, instances are locked by the name as given, and all other names are unknown.
    """
    lookup = resolve or _instances_as_they_are
    return LockDeclaration(levels={level: _apply(level, rule, op, lookup) for level, rule in rules.items()})


def _instances_as_they_are(level: LockLevel, name: str) -> str | None:
    return name if level is LockLevel.INSTANCE else None


def _apply(level: LockLevel, rule: LevelRule, op: object, resolve: Resolver) -> tuple[LevelDeclaration, ...]:
    if rule.scope is not Scope.NAMED:
        return _nameless(rule.mode, rule.scope)
    locks = _locks_of_existing(level, rule, op, resolve)
    for parameter in rule.new:
        locks += _words(getattr(op, parameter))
    if not locks:
        return _nameless(rule.mode, rule.unset)
    if None in locks:
        return _nameless(rule.mode, Scope.UNKNOWN)
    named = LevelDeclaration(rule.mode, Scope.NAMED, frozenset(locks))  # type: ignore[arg-type]  # holds no None
    return (named, *_nameless(rule.mode, Scope.UNKNOWN)) if rule.and_others else (named,)


@cache
def _nameless(mode: LockMode, scope: Scope) -> tuple[LevelDeclaration, ...]:
    """Shared, as there are few and each opcode of a queue has some."""
    return (LevelDeclaration(mode, scope),)


def _locks_of_existing(level: LockLevel, rule: LevelRule, op: object, resolve: Resolver) -> list[str | None]:
    locks: list[str | None] = []
    for parameter in rule.existing:
        # instances have a uuid parameter, too, but are locked by name
        uuids = () if level is LockLevel.INSTANCE else _words(getattr(op, _partner_by_uuid(parameter), None))
        locks += uuids or [resolve(level, name) for name in _words(getattr(op, parameter))]
    return locks


@cache
def _partner_by_uuid(parameter: str) -> str:
    """`node_name` -> `node_uuid`, `target_node` -> `target_node_uuid`, `nodes` -> `node_uuids`."""
    if parameter.endswith("s"):
        return f"{parameter.removesuffix('s').removesuffix('_name')}_uuids"
    return f"{parameter.removesuffix('_name')}_uuid"


def _words(value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
