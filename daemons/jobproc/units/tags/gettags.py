"""OP_TAGS_GET: tells the tags of an object; without `use_locking` no lock is taken.

Source: opcodes.md 4 and 6.2, TAGS_GET.
"""

from collections.abc import Sequence
from typing import ClassVar

from common.locks import LockLevel, LockMode, LockRequest
from common.opcodes.base import OpCode
from common.opcodes.tags import OpTagsGet
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.tags.tagged import tagged_object


class TagsGetUnit(LogicalUnit[OpTagsGet]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsGet
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._object = tagged_object(context.config, self.op.kind, self.op.name)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        return self._object.requests(level, LockMode.SHARED) if self.op.use_locking else ()

    def run(self, context: UnitContext) -> list[str]:
        return sorted(tagged_object(context.config, self.op.kind, self.op.name).tags)
