"""The verbs on the tags of the cluster."""

from cli.tags.tagcommands import TaggedKind, tag_commands
from common.query.kinds import TagKind

list_tags, add_tags, remove_tags = tag_commands(TaggedKind(TagKind.CLUSTER, "gnt-cluster", "the cluster"))
