"""The program `gnt-group`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": CommandVerb("cli.group.list:list_groups", "List node groups."),
    "list-fields": CommandVerb("cli.group.list:list_fields", "List the fields that a list can show."),
    "info": CommandVerb("cli.group.list:info", "Show everything about node groups."),
    "add": CommandVerb("cli.group.changing:add", "Make a node group."),
    "assign-nodes": CommandVerb("cli.group.changing:assign_nodes", "Put nodes into a node group."),
    "modify": CommandVerb("cli.group.changing:modify", "Change the policies and parameters of a node group."),
    "rename": CommandVerb("cli.group.changing:rename", "Give a node group another name."),
    "remove": CommandVerb("cli.group.changing:remove", "Remove a node group without nodes."),
    **tag_verbs("group"),
}

group = CommandGroup(
    "gnt-group",
    VERBS,
    aliases={"show": "info"},
    help="The node groups of the cluster: nodes with a common policy.",
    examples=(
        "gnt-group add --alloc-policy last_resort rack2",
        "gnt-group assign-nodes rack2 web7 web8",
        "gnt-group modify --node-parameters ssh_port=2222 rack2",
        "gnt-group list -o name,node_list",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-group")
