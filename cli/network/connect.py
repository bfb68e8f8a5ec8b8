"""`gnt-network connect`: connect a network to node groups.

Source: opcodes.md 4, NETWORK_CONNECT.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Unpack

import click

from cli.choosing.namecompletion import complete_group, complete_network
from cli.choosing.values import KEY_VALUES
from cli.clusterjobs import carry_out_each
from cli.commands import Command
from cli.query import group_names
from cli.submitting.submitoptions import SubmitOptions, submit_options

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
    **options: Unpack[SubmitOptions],
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
    return carry_out_each(ops, options, "gnt-network", "connect")
