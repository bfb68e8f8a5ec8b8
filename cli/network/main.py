"""The program `gnt-network`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb, tag_verbs
from cli.program import run

VERBS: Final = {
    "list": Verb("cli.network.list:list_networks", "List networks."),
    "list-fields": Verb("cli.network.list:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.network.list:info", "Tell everything about networks."),
    "add": Verb("cli.network.changing:add", "Create a network."),
    "modify": Verb("cli.network.changing:modify", "Change gateways and reserved addresses of a network."),
    "rename": Verb("cli.network.changing:rename", "Give a network another name."),
    "remove": Verb("cli.network.changing:remove", "Remove a network."),
    "connect": Verb("cli.network.changing:connect", "Connect a network to node groups."),
    "disconnect": Verb("cli.network.changing:disconnect", "Disconnect a network from node groups."),
    **tag_verbs("network"),
}

group = Group(
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
