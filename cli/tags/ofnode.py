"""The verbs on the tags of nodes."""

from cli.choosing.namecompletion import complete_node
from cli.tags.tagcommands import TaggedKind, tag_commands
from common.query.kinds import TagKind

list_tags, add_tags, remove_tags = tag_commands(
    TaggedKind(TagKind.NODE, "gnt-node", "NODE", "NODE", "web7", complete_node)
)
