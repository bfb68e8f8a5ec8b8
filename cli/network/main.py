"""The program `gnt-network`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": CommandVerb("cli.network.list:list_networks", "List networks."),
    "list-fields": CommandVerb("cli.network.list:list_fields", "List the fields that a list can show."),
    "info": CommandVerb("cli.network.list:info", "Show everything about networks."),
    "add": CommandVerb("cli.network.changing:add", "Create a network."),
    "modify": CommandVerb("cli.network.changing:modify", "Change gateways and reserved addresses of a network."),
    "rename": CommandVerb("cli.network.changing:rename", "Give a network another name."),
    "remove": CommandVerb("cli.network.changing:remove", "Remove a network."),
    "connect": CommandVerb("cli.network.changing:connect", "Connect a network to node groups."),
    "disconnect": CommandVerb("cli.network.changing:disconnect", "Disconnect a network from node groups."),
    **tag_verbs("network"),
}

group = CommandGroup(
    "gnt-network",
    VERBS,
    aliases={"show": "info"},
    help="The networks of the cluster, and their addresses.",
    examples=(
        "gnt-network add --network 192.0.2.0/24 --gateway 192.0.2.1 front",
        "gnt-network connect --nic-parameters mode=bridged,link=br0 front",
        "gnt-network info front",
        "gnt-network disconnect front && gnt-network remove front",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-network")
