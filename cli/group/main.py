"""The program `gnt-group`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": Verb("cli.group.list:list_groups", "List node groups."),
    "list-fields": Verb("cli.group.list:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.group.list:info", "Tell everything about node groups."),
    "add": Verb("cli.group.changing:add", "Make a node group."),
    "assign-nodes": Verb("cli.group.changing:assign_nodes", "Put nodes into a node group."),
    "modify": Verb("cli.group.changing:modify", "Change the policies and parameters of a node group."),
    "rename": Verb("cli.group.changing:rename", "Give a node group another name."),
    "remove": Verb("cli.group.changing:remove", "Remove a node group without nodes."),
    **tag_verbs("group"),
}

group = Group(
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
