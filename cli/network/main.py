"""The program `gnt-network`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.program import run
from cli.tags.mounting import tag_verbs

VERBS: Final = {
    "list": Verb("cli.network.list:list_networks", "List networks."),
    "list-fields": Verb("cli.network.list_fields:list_fields", "Tell the fields that a list can have."),
    "info": Verb("cli.network.info:info", "Tell everything about networks."),
    "add": Verb("cli.network.add:add", "Create a network."),
    "modify": Verb("cli.network.modify:modify", "Change gateways and reserved addresses of a network."),
    "rename": Verb("cli.network.rename:rename", "Give a network another name."),
    "remove": Verb("cli.network.remove:remove", "Remove a network."),
    "connect": Verb("cli.network.connect:connect", "Connect a network to node groups."),
    "disconnect": Verb("cli.network.disconnect:disconnect", "Disconnect a network from node groups."),
    **tag_verbs("cli.tags.ofnetwork"),
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
