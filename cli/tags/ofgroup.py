"""The verbs on the tags of node groups."""

from cli.choosing.namecompletion import complete_group
from cli.tags.tagcommands import TaggedKind, tag_commands
from common.query.kinds import TagKind

list_tags, add_tags, remove_tags = tag_commands(
    TaggedKind(TagKind.NODEGROUP, "gnt-group", "GROUP", "GROUP", "rack1", complete_group)
)
