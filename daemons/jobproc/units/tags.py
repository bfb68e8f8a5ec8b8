"""The opcodes on tags, which the cluster, nodes, node groups, instances and networks have."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, TypeVar

from common.errors import InvalidRequest, PrerequisiteError, wrong_input
from common.objects.config import Entity
from common.objects.index import ConfigIndex
from common.objects.kinds import TagKind, check_count, check_tags
from common.opcodes.base import OpCode
from common.opcodes.tags import OnTags, OpTagsDel, OpTagsGet, OpTagsSearch, OpTagsSet
from common.query.qlang import Regex, parse_regex
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.objects import GROUP, INSTANCE, NETWORK, NODE, AnyKind

_KINDS: Final[Mapping[TagKind, AnyKind]] = {
    TagKind.NODE: NODE,
    TagKind.NODEGROUP: GROUP,
    TagKind.NETWORK: NETWORK,
    TagKind.INSTANCE: INSTANCE,
}
O_co = TypeVar("O_co", bound=OnTags | OpTagsGet, covariant=True)


class TagsUnit(LogicalUnit[O_co]):
    """The common base: finds the object, and locks it as the opcode declares.

    The cluster has no lock for its tags: wconfd makes each change in one step.
    """

    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        """Raises: PrerequisiteError: there is no such object, or no name is given; of the cluster it is ignored."""
        config, name = context.config, self.op.name
        kind = _KINDS.get(self.op.kind)
        if kind is None:
            self.object: Entity = config.cluster
            self.title = "the cluster"
            return
        if not name:
            raise wrong_input(f"name the {kind.title} whose tags are meant")
        found = kind.named(config, name)
        self.object = found
        self.title = f"{kind.title} '{found.name if kind is INSTANCE else name}'"
        self.lock_names = {kind.level: [kind.lock_name(found)]}


# OP_TAGS_SET and OP_TAGS_DEL: add tags to an object, and remove them.
#
# Source: opcodes.md 4 and 6.2, TAGS_SET and TAGS_DEL.


class TagsSetUnit(TagsUnit[OpTagsSet]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsSet

    def check_prereq(self, context: UnitContext) -> None:
        check_tags(self.op.tags)
        check_count(len(self.object.tags | set(self.op.tags)))

    def run(self, context: UnitContext) -> None:
        context.config.change_tags(self.op.kind, self.object.uuid, added=self.op.tags)


class TagsDelUnit(TagsUnit[OpTagsDel]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsDel

    def check_prereq(self, context: UnitContext) -> None:
        check_tags(self.op.tags)
        if missing := sorted(set(self.op.tags) - self.object.tags):
            shown = ", ".join(f"'{tag}'" for tag in missing[:10])
            raise PrerequisiteError(f"{self.title} does not have the tags {shown}", "unknown_entity")

    def run(self, context: UnitContext) -> None:
        context.config.change_tags(self.op.kind, self.object.uuid, removed=self.op.tags)


# OP_TAGS_GET: tells the tags of an object; without `use_locking` no lock is taken.
#
# Source: opcodes.md 4 and 6.2, TAGS_GET.


class TagsGetUnit(TagsUnit[OpTagsGet]):
    OPCODE: ClassVar[type[OpCode]] = OpTagsGet

    def run(self, context: UnitContext) -> list[str]:
        return sorted(self.object.tags)


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
            raise wrong_input(error.message) from error

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
