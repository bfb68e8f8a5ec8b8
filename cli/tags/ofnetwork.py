"""The verbs on the tags of networks."""

from cli.choosing.namecompletion import complete_network
from cli.tags.tagcommands import TaggedKind, tag_commands
from common.query.kinds import TagKind

list_tags, add_tags, remove_tags = tag_commands(
    TaggedKind(TagKind.NETWORK, "gnt-network", "NETWORK", "NETWORK", "front", complete_network)
)
