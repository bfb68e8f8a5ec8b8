"""`gnt-node add`: take a node into the cluster.

Source: opcodes.md 4, NODE_ADD.
"""

from collections.abc import Mapping
from typing import Unpack

import click

from cli.choosing.values import KEY_VALUES, YES_NO
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("add", cls=Command, examples=("gnt-node add --primary-ip 10.0.0.7 web7", "gnt-node add --readd web7"))
@click.option("--readd", is_flag=True, help="Take a node anew that is in the cluster: its flags go.")
@click.option("--primary-ip", metavar="IP", help="Its address; that of its name if left out.")
@click.option("-s", "--secondary-ip", metavar="IP", help="Its second address, where all nodes have two.")
@click.option("-g", "--node-group", "group", metavar="NAME", help="Its group, where there are several.")
@click.option("--master-capable", type=YES_NO, help="Whether it may be a master candidate; yes if left out.")
@click.option("--vm-capable", type=YES_NO, help="Whether it may have instances; yes if left out.")
@click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Parameters of its own: ssh_port=2222.")
@submit_options
@click.argument("name", metavar="NODE")
def add(
    name: str,
    readd: bool,
    primary_ip: str | None,
    secondary_ip: str | None,
    group: str | None,
    master_capable: bool | None,
    vm_capable: bool | None,
    ndparams: Mapping[str, str] | None,
    **options: Unpack[SubmitOptions],
) -> int:
    """Take NODE into the cluster; its node daemon runs with the cluster's certificate.

    It becomes a master candidate if the pool has room. A machine that is no node yet joins by itself with:
    gantry join. Waits for the job, except with --submit.
    """
    op = {
        "OP_ID": "OP_NODE_ADD",
        "node_name": name,
        "readd": readd,
        "primary_ip": primary_ip,
        "secondary_ip": secondary_ip,
        "group": group,
        "master_capable": master_capable,
        "vm_capable": vm_capable,
        "ndparams": ndparams,
    }
    return carry_out(op, options, "gnt-node", "add")
