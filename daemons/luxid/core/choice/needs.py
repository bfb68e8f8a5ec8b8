"""The locks of one opcode in the form in which they are compared: kinds by level, and names.

Source: predictive-queue design; luxid.md 5.11; DESIGN section 11, "predicted weight".
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import attrs

from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import BGL, Lock, LockLevel, LockMode, meets
from daemons.luxid.core.choice.weights import LEVELS, Taking, takings_of

# index in LEVELS, name
Name = tuple[int, str]

_NOTHING: Final[tuple[Taking, ...]] = (Taking.NONE,)
_INDEX_OF: Final = {level: index for index, level in enumerate(LEVELS)}


@attrs.frozen(cache_hash=True)
class Shape:
    """The needs without their names. There are few shapes, however many jobs there are."""

    # takings of each level, in the order of LEVELS
    takings: tuple[tuple[Taking, ...], ...]
    # None: not even the BGL
    bgl: LockMode | None


@attrs.frozen(cache_hash=True)
class Needs:
    """The locks of an opcode; equal for jobs of one class."""

    shape: Shape
    shared: tuple[Name, ...] = ()
    exclusive: tuple[Name, ...] = ()
    # False: the opcode cannot be read
    is_known: bool = True

    @property
    def takes_big_lock(self) -> bool:
        return self.shape.bgl is LockMode.EXCLUSIVE

    def names_at(self, level_index: int, names: Iterable[Name]) -> frozenset[str]:
        return frozenset(name for level, name in names if level == level_index)


# shapes are shared, as they are compared often
_shape: Final = lru_cache(maxsize=4096)(Shape)


def needs_of(declaration: LockDeclaration) -> Needs:
    takings = [_NOTHING] * len(LEVELS)
    shared: list[Name] = []
    exclusive: list[Name] = []
    for level, entries in declaration.levels.items():
        level_index = _INDEX_OF[level]
        takings[level_index] = takings_of(entries)
        for entry in entries:
            names = shared if entry.mode is LockMode.SHARED else exclusive
            names += [(level_index, name) for name in entry.names]
    return Needs(_shape(tuple(takings), declaration.bgl), tuple(sorted(shared)), tuple(sorted(exclusive)))


# needs of an opcode that cannot be read: before the start as heavy as the BGL, once it runs it holds nothing
UNREADABLE: Final = Needs(Shape((_NOTHING,) * len(LEVELS), LockMode.EXCLUSIVE), is_known=False)
NO_NEEDS: Final = Needs(Shape((_NOTHING,) * len(LEVELS), None))


def as_running(needs: Needs, held: Mapping[Lock, LockMode]) -> Needs:
    """Return what a running job takes: the locks it holds, and on levels where it holds none those it declared.

    A job asks for all locks of a level at once; so what it holds there is complete, and truer than the declaration.
    """
    declared = needs if needs.is_known else NO_NEEDS
    if not held:
        return declared
    takings: list[tuple[Taking, ...]] = []
    shared: list[Name] = []
    exclusive: list[Name] = []
    for level_index, level in enumerate(LEVELS):
        entries = tuple(_entries(level, held))
        takings.append(takings_of(entries) if entries else declared.shape.takings[level_index])
        named = [
            (level_index, lock.name, mode) for lock, mode in held.items() if lock.level is level and not lock.is_group
        ]
        if entries:
            shared += [(level_index, name) for level_index, name, mode in named if mode is LockMode.SHARED]
            exclusive += [(level_index, name) for level_index, name, mode in named if mode is LockMode.EXCLUSIVE]
        else:
            shared += [name for name in declared.shared if name[0] == level_index]
            exclusive += [name for name in declared.exclusive if name[0] == level_index]
    shape = _shape(tuple(takings), _bgl(held) or declared.shape.bgl)
    return Needs(shape, tuple(sorted(shared)), tuple(sorted(exclusive)))


def _entries(level: LockLevel, held: Mapping[Lock, LockMode]) -> Iterable[LevelDeclaration]:
    for lock, mode in held.items():
        if lock.level is level:
            yield LevelDeclaration(mode, Scope.ALL if lock.is_group else Scope.NAMED)


def _bgl(held: Mapping[Lock, LockMode]) -> LockMode | None:
    modes = {mode for lock, mode in held.items() if lock.level is LockLevel.CLUSTER and meets(BGL, lock)}
    return LockMode.EXCLUSIVE if LockMode.EXCLUSIVE in modes else LockMode.SHARED if modes else None
