"""`gnt-network add`: create a network.

Source: opcodes.md 4, NETWORK_ADD.
"""

from collections.abc import Sequence
from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.network.words import ADDRESSES, TAGS
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command(
    "add",
    cls=Command,
    examples=(
        "gnt-network add --network 192.0.2.0/24 --gateway 192.0.2.1 front",
        "gnt-network add --network 10.0.0.0/20 --add-reserved-ips 10.0.0.2,10.0.0.3 --tags lab back",
    ),
)
@click.option("--network", "subnet", metavar="NETWORK", required=True, help="Its range: 192.0.2.0/24; /16 to /30.")
@click.option("--gateway", metavar="IP", help="Its gateway, which no instance gets.")
@click.option("--add-reserved-ips", "add_reserved_ips", type=ADDRESSES, help="Addresses that no instance gets.")
@click.option("--network6", metavar="NETWORK", help="Its IPv6 range: 2001:db8::/64.")
@click.option("--gateway6", metavar="IP", help="The gateway of its IPv6 range.")
@click.option("-m", "--mac-prefix", metavar="PREFIX", help="Begin of the MAC addresses in it: aa:00:55.")
@click.option(
    "--no-conflicts-check", "conflicts_check", flag_value=False, default=True, help="Do not reserve nodes' addresses."
)
@click.option("--tags", type=TAGS, help="Tags of the network.")
@submit_options
@click.argument("name", metavar="NETWORK")
def add(
    name: str,
    subnet: str,
    gateway: str | None,
    add_reserved_ips: Sequence[str] | None,
    network6: str | None,
    gateway6: str | None,
    mac_prefix: str | None,
    conflicts_check: bool,
    tags: Sequence[str] | None,
    **options: Unpack[SubmitOptions],
) -> int:
    """Create NETWORK, with a pool of addresses for instances.

    Its first and last address, the gateway and the addresses of the nodes are reserved. Waits for the job, except
    with --submit.
    """
    op = {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": name,
        "network": subnet,
        "gateway": gateway,
        "network6": network6,
        "gateway6": gateway6,
        "mac_prefix": mac_prefix,
        "add_reserved_ips": add_reserved_ips,
        "conflicts_check": conflicts_check,
        "tags": tags or [],
    }
    return carry_out(op, options, "gnt-network", "add")
