"""The program `gnt-node`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": Verb("cli.node.list:list_nodes", "List nodes."),
    "list-fields": Verb("cli.node.list:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.node.list:info", "Tell everything about nodes."),
    "add": Verb("cli.node.changing:add", "Take a node into the cluster."),
    "modify": Verb("cli.node.changing:modify", "Change the role and the parameters of a node."),
    "remove": Verb("cli.node.changing:remove", "Take a node out of the cluster."),
    **tag_verbs("node"),
}

group = Group(
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
