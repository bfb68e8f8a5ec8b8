"""The base class of all logical units: the work of an opcode, in the steps of a job process.

A unit is made for one execution of one opcode. The job process calls, in this order:
`expand_names`; `declare_locks` for each level, in lock order; then, with the locks held and
*running* on disk, `check_prereq` and `run`. Any exception ends the opcode as failed; the user sees a `GantryError`
unchanged, and any other exception by its text.

Locks. The opcode's class declares levels, modes and, as far as parameters tell, names. What they do not tell, because
an object is locked by its uuid or is found by way of another, the unit looks up in `expand_names` and sets as
`lock_names`; it overrides `declare_locks` only where that is not enough. A unit that chooses its locks by what it reads
in `expand_names` says `is_optimistic = True`: then, with the locks held, both are called again, and the job starts over
if the locks are not enough any more (`daemons.jobproc.opcodelocks`). So what the second call has read is what
`check_prereq` and `run` may rely on, as far as the locks protect it.

Source: DESIGN section 7; wconfd.md 8.2.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from common.lockdecl import LockDeclaration, Scope, requests_for
from common.locks import LockLevel, LockRequest, member_lock
from common.opcodes.base import OpCode
from daemons.jobproc.context import UnitContext

O_co = TypeVar("O_co", bound=OpCode, covariant=True)


class LogicalUnit(Generic[O_co]):
    """The work of an opcode; subclasses name the opcode's class and override the steps they need."""

    OPCODE: ClassVar[type[OpCode]]
    # whether names and locks are declared again with the locks held; `expand_names` must then bear a second call
    is_optimistic: ClassVar[bool] = False

    # names of the locks that `expand_names` has found, by level; they are taken in the mode that the opcode declares
    # for the level, and not at all if it declares none. Nothing else is asked for there, unless the opcode declares all
    lock_names: Mapping[LockLevel, Sequence[str]] = MappingProxyType({})

    def __init__(self, op: O_co) -> None:
        self.op = op

    @cached_property
    def declaration(self) -> LockDeclaration:
        """The locks that the opcode's parameters tell."""
        return self.op.lock_declaration()

    def expand_names(self, context: UnitContext) -> None:
        """Look up what the parameters only imply; no locks are held yet, but at a second call (`is_optimistic`)."""

    def is_dynamic(self, level: LockLevel) -> bool:
        """Whether `declare_locks` of this level needs the locks of all earlier levels to be held."""
        entries = self.declaration.levels.get(level, ())
        return level not in self.lock_names and any(entry.scope is Scope.UNKNOWN for entry in entries)

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        """The wanted locks of one level; by default `lock_names`, or else those that the opcode's parameters tell."""
        entries = self.declaration.levels.get(level, ())
        if level not in self.lock_names or any(entry.scope is Scope.ALL for entry in entries):
            return requests_for(level, entries)
        # of both modes only where the parameters name locks one by one, which units then do not look up
        return [LockRequest(member_lock(level, name), entries[0].mode) for name in self.lock_names[level] if entries]

    def check_prereq(self, context: UnitContext) -> None:
        """Raises: PrerequisiteError: the state of the cluster does not permit the opcode."""

    def run(self, context: UnitContext) -> object:
        """Do the work.

        Returns: the opcode's result, JSON-able.
        Raises: JobCanceled: stopped halfway because the job was asked to cancel.
        """
        raise NotImplementedError
