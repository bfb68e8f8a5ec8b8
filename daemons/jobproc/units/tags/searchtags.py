"""OP_TAGS_SEARCH: finds tags by a regular expression, on all objects.

Source: opcodes.md 4 and 6.2, TAGS_SEARCH.
"""

from collections.abc import Iterator
from typing import ClassVar

from common.errors import InvalidRequest, PrerequisiteError
from common.objects.entity import Entity
from common.objects.index import ConfigIndex
from common.opcodes.base import OpCode
from common.opcodes.tags import OpTagsSearch
from common.query.regex import Regex, parse_regex
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit


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
