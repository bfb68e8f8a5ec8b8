"""The verbs of `gnt-network` that change networks."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from cli.commands import Command
from cli.options import KEY_VALUES, ReadType, complete_group, complete_network, read_words
from cli.query import group_names
from cli.submitting.options import SubmissionOptions, submit_options
from cli.submitting.submission import carry_out, carry_out_each

# Values of options of several verbs of `gnt-network`.
#
# Source: cli.md 1.


ADDRESSES: Final = ReadType(read_words, "IP,...")
TAGS: Final = ReadType(read_words, "TAG,...")


# `gnt-network add`: create a network.
#
# Source: opcodes.md 4, NETWORK_ADD.


@click.command(
    "add",
    cls=Command,
    examples=(
        "gnt-network add --network 192.0.2.0/24 --gateway 192.0.2.1 front",
        "gnt-network add --network 10.0.0.0/20 --add-reserved-ips 10.0.0.2,10.0.0.3 --tags lab back",
    ),
)
@click.option("--network", metavar="NETWORK", required=True, help="Its range: 192.0.2.0/24; /16 to /30.")
@click.option("--gateway", metavar="IP", help="Its gateway, which no instance gets.")
@click.option("--add-reserved-ips", type=ADDRESSES, help="Addresses that no instance gets.")
@click.option("--network6", metavar="NETWORK", help="Its IPv6 range: 2001:db8::/64.")
@click.option("--gateway6", metavar="IP", help="The gateway of its IPv6 range.")
@click.option("-m", "--mac-prefix", metavar="PREFIX", help="Begin of the MAC addresses in it: aa:00:55.")
@click.option(
    "--no-conflicts-check", "conflicts_check", flag_value=False, default=True, help="Do not reserve nodes' addresses."
)
@click.option("--tags", type=TAGS, help="Tags of the network.")
@submit_options
@click.argument("name", metavar="NETWORK")
def add(name: str, tags: Sequence[str] | None, submission: SubmissionOptions, **given: object) -> int:
    """Create NETWORK, with a pool of addresses for instances.

    Its first and last address, the gateway and the addresses of the nodes are reserved. Waits for the job, except
    with --submit.
    """
    op = {"OP_ID": "OP_NETWORK_ADD", "network_name": name, "tags": tags or [], **given}
    return carry_out(op, submission, "gnt-network", "add")


# `gnt-network modify`: change gateways, MAC prefix and reserved addresses of a network.
#
# Source: opcodes.md 4, NETWORK_SET_PARAMS.


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-network modify --gateway 192.0.2.254 front",
        "gnt-network modify --add-reserved-ips 192.0.2.10,192.0.2.11 front",
        "gnt-network modify --gateway6 none front",
    ),
)
@click.option("--gateway", metavar="IP", help="Its gateway; 'none' removes it.")
@click.option("--add-reserved-ips", type=ADDRESSES, help="Addresses that no instance gets.")
@click.option("--remove-reserved-ips", type=ADDRESSES, help="Addresses that instances may get.")
@click.option("--network6", metavar="NETWORK", help="Its IPv6 range; 'none' removes it.")
@click.option("--gateway6", metavar="IP", help="The gateway of its IPv6 range; 'none' removes it.")
@click.option("-m", "--mac-prefix", metavar="PREFIX", help="Begin of the MAC addresses in it; 'none' removes it.")
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
def modify(name: str, submission: SubmissionOptions, **given: object) -> int:
    """Change NETWORK; what is left out stays. Its range cannot be changed.

    Waits for the job, except with --submit.
    """
    if not any(given.values()):
        raise click.UsageError("nothing to change; name a value, as in: gnt-network modify --gateway IP NETWORK")
    op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **given}
    return carry_out(op, submission, "gnt-network", "modify")


# `gnt-network rename`: give a network another name.
#
# Source: opcodes.md 4, NETWORK_RENAME.


@click.command("rename", cls=Command, examples=("gnt-network rename front public",))
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
@click.argument("new_name", metavar="NAME")
def rename(name: str, new_name: str, submission: SubmissionOptions) -> int:
    """Give NETWORK the name NAME; its uuid, its pool and its connections stay.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_NETWORK_RENAME", "network_name": name, "new_name": new_name}
    return carry_out(op, submission, "gnt-network", "rename")


# `gnt-network remove`: remove a network.
#
# Source: opcodes.md 4, NETWORK_REMOVE.


@click.command("remove", cls=Command, examples=("gnt-network remove front",))
@click.option("-f", "--force", is_flag=True, help="Accepted as by Ganeti's command; a network in use stays.")
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
def remove(name: str, force: bool, submission: SubmissionOptions) -> int:
    """Remove NETWORK, which no group may be connected to, and no instance use.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name, "force": force}
    return carry_out(op, submission, "gnt-network", "remove")


# `gnt-network connect`: connect a network to node groups.
#
# Source: opcodes.md 4, NETWORK_CONNECT.


# as Ganeti's command has them
_DEFAULTS: Final = {"mode": "bridged", "link": "xen-br0", "vlan": ""}


@click.command(
    "connect",
    cls=Command,
    examples=(
        "gnt-network connect --nic-parameters mode=bridged,link=br0 front",
        "gnt-network connect -N mode=openvswitch,link=ovs1,vlan=.100 front rack1 rack2",
    ),
)
@click.option(
    "-N",
    "--nic-parameters",
    "nicparams",
    type=KEY_VALUES,
    help="How interfaces in it are connected: mode, link, vlan; bridged to xen-br0 if left out.",
)
@click.option(
    "--no-conflicts-check",
    "conflicts_check",
    flag_value=False,
    default=True,
    help="Also if instances have addresses of its range.",
)
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_group)
def connect(
    name: str,
    groups: Sequence[str],
    nicparams: Mapping[str, str] | None,
    conflicts_check: bool,
    submission: SubmissionOptions,
) -> int:
    """Connect NETWORK to these node groups, or to all: a job for each.

    Waits for the jobs, except with --submit.
    """
    given = nicparams or {}
    if unknown := sorted(given.keys() - _DEFAULTS.keys()):
        raise click.UsageError(f"interfaces have no parameter '{unknown[0]}'; known are {', '.join(_DEFAULTS)}")
    params = {**_DEFAULTS, **given}
    ops = [
        {
            "OP_ID": "OP_NETWORK_CONNECT",
            "group_name": group,
            "network_name": name,
            "network_mode": params["mode"],
            "network_link": params["link"],
            "network_vlan": params["vlan"],
            "conflicts_check": conflicts_check,
        }
        for group in groups or group_names()
    ]
    return carry_out_each(ops, submission, "gnt-network", "connect")


# `gnt-network disconnect`: disconnect a network from node groups.
#
# Source: opcodes.md 4, NETWORK_DISCONNECT.


@click.command(
    "disconnect", cls=Command, examples=("gnt-network disconnect front", "gnt-network disconnect front rack1")
)
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_group)
def disconnect(name: str, groups: Sequence[str], submission: SubmissionOptions) -> int:
    """Disconnect NETWORK from these node groups, or from all: a job for each.

    Waits for the jobs, except with --submit.
    """
    ops = [
        {"OP_ID": "OP_NETWORK_DISCONNECT", "group_name": group, "network_name": name}
        for group in groups or group_names()
    ]
    return carry_out_each(ops, submission, "gnt-network", "disconnect")
