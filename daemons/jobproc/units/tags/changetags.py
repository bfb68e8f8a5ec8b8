"""OP_TAGS_SET and OP_TAGS_DEL: add tags to an object, and remove them.

Source: opcodes.md 4 and 6.2, TAGS_SET and TAGS_DEL.
"""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest
from common.objects.tags import check_count, check_tags
from common.opcodes.base import OpCode
from common.opcodes.tags import OnTags, OpTagsDel, OpTagsSet
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.tags.tagged import Tagged, tagged_object

O_co = TypeVar("O_co", bound=OnTags, covariant=True)


class ChangeTagsUnit(LogicalUnit[O_co]):
    """The common base of both. The cluster has no lock for its tags: wconfd makes each change in one step."""

    def expand_names(self, context: UnitContext) -> None:
        self._found = tagged_object(context.config, self.op.kind, self.op.name)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        return self._found.requests(level, LockMode.EXCLUSIVE)

    def current(self, context: UnitContext) -> Tagged:
        """The object, with its lock held. Raises: PrerequisiteError: it is gone, or the name is another's now."""
        now = tagged_object(context.config, self.op.kind, self.op.name)
        if now.uuid != self._found.uuid:
            raise PrerequisiteError(f"{self._found.title} was replaced meanwhile; try again", "unknown_entity")
        return now


class TagsSetUnit(ChangeTagsUnit[OpTagsSet]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsSet
    is_optimistic: ClassVar[bool] = True

    def check_prereq(self, context: UnitContext) -> None:
        check_tags(self.op.tags)
        self._object = self.current(context)
        check_count(len(self._object.tags | set(self.op.tags)))

    def run(self, context: UnitContext) -> None:
        context.config.change_tags(self.op.kind, self._object.uuid, added=self.op.tags)


class TagsDelUnit(ChangeTagsUnit[OpTagsDel]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsDel
    is_optimistic: ClassVar[bool] = True

    def check_prereq(self, context: UnitContext) -> None:
        check_tags(self.op.tags)
        self._object = self.current(context)
        if missing := sorted(set(self.op.tags) - self._object.tags):
            shown = ", ".join(f"'{tag}'" for tag in missing[:10])
            raise PrerequisiteError(f"{self._object.title} does not have the tags {shown}", "unknown_entity")

    def run(self, context: UnitContext) -> None:
        context.config.change_tags(self.op.kind, self._object.uuid, removed=self.op.tags)
