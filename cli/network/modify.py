"""`gnt-network modify`: change gateways, MAC prefix and reserved addresses of a network.

Source: opcodes.md 4, NETWORK_SET_PARAMS.
"""

from collections.abc import Sequence
from typing import Unpack

import click

from cli.choosing.namecompletion import complete_network
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.network.words import ADDRESSES
from cli.submitting.submitoptions import SubmitOptions, submit_options


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
@click.option("--add-reserved-ips", "add_reserved_ips", type=ADDRESSES, help="Addresses that no instance gets.")
@click.option("--remove-reserved-ips", "remove_reserved_ips", type=ADDRESSES, help="Addresses that instances may get.")
@click.option("--network6", metavar="NETWORK", help="Its IPv6 range; 'none' removes it.")
@click.option("--gateway6", metavar="IP", help="The gateway of its IPv6 range; 'none' removes it.")
@click.option("-m", "--mac-prefix", metavar="PREFIX", help="Begin of the MAC addresses in it; 'none' removes it.")
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
def modify(
    name: str,
    gateway: str | None,
    add_reserved_ips: Sequence[str] | None,
    remove_reserved_ips: Sequence[str] | None,
    network6: str | None,
    gateway6: str | None,
    mac_prefix: str | None,
    **options: Unpack[SubmitOptions],
) -> int:
    """Change NETWORK; what is left out stays. Its range cannot be changed.

    Waits for the job, except with --submit.
    """
    values = {
        "gateway": gateway,
        "network6": network6,
        "gateway6": gateway6,
        "mac_prefix": mac_prefix,
        "add_reserved_ips": add_reserved_ips,
        "remove_reserved_ips": remove_reserved_ips,
    }
    if not any(values.values()):
        raise click.UsageError("nothing to change; name a value, as in: gnt-network modify --gateway IP NETWORK")
    op = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **values}
    return carry_out(op, options, "gnt-network", "modify")
