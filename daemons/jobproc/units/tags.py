"""The opcodes on tags, which the cluster, nodes, node groups, instances and networks have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeVar, assert_never

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.config import Entity
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import TagKind, check_count, check_tags
from common.opcodes.base import OpCode
from common.opcodes.tags import OnTags, OpTagsDel, OpTagsGet, OpTagsSearch, OpTagsSet
from common.query.qlang import Regex, parse_regex
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups import group_of

# Finding the object whose tags an opcode tells or changes.
#
# Source: opcodes.md 4 and 6.2, TAGS_GET.


_TITLES: Final[Mapping[TagKind, str]] = {
    TagKind.NODE: "node",
    TagKind.NODEGROUP: "node group",
    TagKind.NETWORK: "network",
    TagKind.INSTANCE: "instance",
}


@attrs.frozen
class ObjectWithTags:
    """An object with tags."""

    kind: TagKind
    # kind and name, for errors
    title: str
    # of the object; empty: the cluster
    uuid: str
    tags: frozenset[str]
    # level and name of its lock; None: the cluster's tags have none
    level: LockLevel | None
    lock_name: str

    def requests(self, level: LockLevel, mode: LockMode) -> Sequence[LockRequest]:
        """The request for its lock, on the lock's level."""
        if level is not self.level:
            return ()
        return [LockRequest(member_lock(level, self.lock_name), mode)]


def tagged_object(config: ConfigIndex, kind: TagKind, name: str | None) -> ObjectWithTags:
    """The object of this name; of the cluster the name is ignored.

    Raises: PrerequisiteError: there is none, or no name is given.
    """
    if kind is TagKind.CLUSTER:
        return ObjectWithTags(kind, "the cluster", "", config.cluster.tags, None, "")
    if not name:
        raise PrerequisiteError(f"name the {_TITLES[kind]} whose tags are meant", "wrong_input")
    match kind:
        case TagKind.NODE:
            return _of(kind, find_named(config.nodes, [name], "node", is_host=True)[0], LockLevel.NODE, name)
        case TagKind.NODEGROUP:
            return _of(kind, group_of(config, name), LockLevel.NODEGROUP, name)
        case TagKind.NETWORK:
            found = find_named(config.networks, [name], "network", is_host=False)[0]
            return _of(kind, found, LockLevel.NETWORK, name)
        case TagKind.INSTANCE:
            instance = find_named(config.instances, [name], "instance", is_host=True)[0]
            title = f"instance '{instance.name}'"
            return ObjectWithTags(kind, title, instance.uuid, instance.tags, LockLevel.INSTANCE, instance.name or name)
        case _:
            assert_never(kind)


def _of(kind: TagKind, found: Entity, level: LockLevel, name: str) -> ObjectWithTags:
    return ObjectWithTags(kind, f"{_TITLES[kind]} '{name}'", found.uuid, found.tags, level, found.uuid)


# OP_TAGS_SET and OP_TAGS_DEL: add tags to an object, and remove them.
#
# Source: opcodes.md 4 and 6.2, TAGS_SET and TAGS_DEL.


O_co = TypeVar("O_co", bound=OnTags, covariant=True)


class ChangeTagsUnit(LogicalUnit[O_co]):
    """The common base of both. The cluster has no lock for its tags: wconfd makes each change in one step."""

    def expand_names(self, context: UnitContext) -> None:
        self._found = tagged_object(context.config, self.op.kind, self.op.name)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        return self._found.requests(level, LockMode.EXCLUSIVE)

    def current(self, context: UnitContext) -> ObjectWithTags:
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


# OP_TAGS_GET: tells the tags of an object; without `use_locking` no lock is taken.
#
# Source: opcodes.md 4 and 6.2, TAGS_GET.


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


# OP_TAGS_SEARCH: finds tags by a regular expression, on all objects.
#
# Source: opcodes.md 4 and 6.2, TAGS_SEARCH.


class TagsSearchUnit(LogicalUnit[OpTagsSearch]):
    """No locks are taken: what is found is what one moment's configuration has."""

    OPCODE: ClassVar[type[OpCode]] = OpTagsSearch

    def check_prereq(self, context: UnitContext) -> None:
        try:
            self._pattern: Regex = parse_regex(self.op.pattern)
        except InvalidRequest as error:
            raise PrerequisiteError(error.message, "wrong_input") from error

    def run(self, context: UnitContext) -> list[list[str]]:
        return sorted(
            [path, tag]
            for path, found in tagged_objects(context.config)
            for tag in found.tags
            if self._pattern.is_in(tag)
        )


def tagged_objects(config: ConfigIndex) -> Iterator[tuple[str, Entity]]:
    """All objects that may have tags, with their paths in Ganeti's form."""
    yield "/cluster", config.cluster
    for table, folder in (
        (config.instances, "instances"),
        (config.nodes, "nodes"),
        (config.groups, "nodegroup"),
        (config.networks, "network"),
    ):
        for each in table:
            yield f"/{folder}/{each.name}", each
