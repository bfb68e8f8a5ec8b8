"""The program `gnt-node`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": CommandVerb("cli.node.list:list_nodes", "List nodes."),
    "list-fields": CommandVerb("cli.node.list:list_fields", "List the fields that a list can show."),
    "info": CommandVerb("cli.node.list:info", "Show everything about nodes."),
    "add": CommandVerb("cli.node.changing:add", "Take a node into the cluster."),
    "modify": CommandVerb("cli.node.changing:modify", "Change the role and the parameters of a node."),
    "remove": CommandVerb("cli.node.changing:remove", "Take a node out of the cluster."),
    **tag_verbs("node"),
}

group = CommandGroup(
    "gnt-node",
    VERBS,
    aliases={"show": "info"},
    help="The nodes of the cluster.",
    examples=(
        "gnt-node list -o name,role,pip",
        "gnt-node modify --offline=yes node3",
        "gnt-node add --readd node3",
        "gnt-node remove node3",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-node")
