"""The program `gnt-node`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.program import run
from cli.tags.mounting import tag_verbs

VERBS: Final = {
    "list": Verb("cli.node.list:list_nodes", "List nodes."),
    "list-fields": Verb("cli.node.list_fields:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.node.info:info", "Tell everything about nodes."),
    "add": Verb("cli.node.add:add", "Take a node into the cluster."),
    "modify": Verb("cli.node.modify:modify", "Change the role and the parameters of a node."),
    "remove": Verb("cli.node.remove:remove", "Take a node out of the cluster."),
    **tag_verbs("cli.tags.ofnode"),
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
