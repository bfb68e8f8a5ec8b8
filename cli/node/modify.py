"""`gnt-node modify`: change the role and the parameters of a node.

Source: opcodes.md 4, NODE_SET_PARAMS.
"""

from collections.abc import Mapping
from typing import Unpack

import click

from cli.choosing.namecompletion import complete_node
from cli.choosing.values import KEY_VALUES, YES_NO
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.context import wants_json
from cli.screen import say, say_json
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-node modify --offline=yes web7",
        "gnt-node modify --master-candidate=no --auto-promote web2",
        "gnt-node modify --node-parameters ssh_port=2222 web3",
    ),
)
@click.option("-C", "--master-candidate", type=YES_NO, help="Whether it holds copies of queue and configuration.")
@click.option("-D", "--drained", type=YES_NO, help="Whether it takes nothing new.")
@click.option("-O", "--offline", type=YES_NO, help="Whether it is away, and is not called.")
@click.option("--auto-promote", is_flag=True, help="Let another node become candidate in its place.")
@click.option("--master-capable", type=YES_NO, help="Whether it may be a master candidate.")
@click.option("--vm-capable", type=YES_NO, help="Whether it may have instances.")
@click.option("-s", "--secondary-ip", metavar="IP", help="Its second address.")
@click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Its own parameters; 'default' ends one.")
@click.option("--powered", "--node-powered", "powered", type=YES_NO, help="Whether it is switched on.")
@click.option("-f", "--force", is_flag=True, help="Also if too few master candidates are left.")
@submit_options
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def modify(
    name: str,
    ndparams: Mapping[str, str] | None,
    auto_promote: bool,
    force: bool,
    master_candidate: bool | None,
    drained: bool | None,
    offline: bool | None,
    master_capable: bool | None,
    vm_capable: bool | None,
    secondary_ip: str | None,
    powered: bool | None,
    **options: Unpack[SubmitOptions],
) -> int:
    """Change the role and the parameters of NODE; what is left out stays.

    A node is a candidate, drained, offline, or none of these. One that returns becomes a candidate if the pool has
    room. Waits for the job, except with --submit.
    """
    op = {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": name,
        "force": force,
        "auto_promote": auto_promote,
        "master_candidate": master_candidate,
        "drained": drained,
        "offline": offline,
        "master_capable": master_capable,
        "vm_capable": vm_capable,
        "secondary_ip": secondary_ip,
        "ndparams": ndparams,
        "powered": powered,
    }
    return carry_out(op, options, "gnt-node", "modify", lambda result: _tell(name, result))


def _tell(name: str, result: object) -> None:
    changes = result if isinstance(result, list) else []
    if wants_json():
        say_json({"node": name, "changes": changes})
    elif changes:
        say(f"Modified node {name}")
        for parameter, value in changes:
            say(f" - {parameter:<5} -> {value}")
