"""The verbs of `gnt-node` that change nodes."""

import click

from cli.commands import Command
from cli.options import KEY_VALUES, YES_NO, complete_node
from cli.submitting.options import SubmissionOptions, submit_options
from cli.submitting.submission import carry_out, tell_changes

# `gnt-node add`: take a node into the cluster.
#
# Source: opcodes.md 4, NODE_ADD.


@click.command("add", cls=Command, examples=("gnt-node add --primary-ip 10.0.0.7 web7", "gnt-node add --readd web7"))
@click.option("--readd", is_flag=True, help="Add a node of the cluster again; its flags are reset.")
@click.option("--primary-ip", metavar="IP", help="Its address; that of its name if left out.")
@click.option("-s", "--secondary-ip", metavar="IP", help="Its second address, where all nodes have two.")
@click.option("-g", "--node-group", "group", metavar="NAME", help="Its group, where there are several.")
@click.option("--master-capable", type=YES_NO, help="Whether it may be a master candidate; yes if left out.")
@click.option("--vm-capable", type=YES_NO, help="Whether it may have instances; yes if left out.")
@click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Parameters of its own: ssh_port=2222.")
@submit_options
@click.argument("name", metavar="NODE")
def add(name: str, submission: SubmissionOptions, **given: object) -> int:
    """Take NODE into the cluster; its node daemon runs with the cluster's certificate.

    It becomes a master candidate if the pool has room. A machine that is no node yet joins by itself with:
    gantry join. Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_NODE_ADD", "node_name": name, **given}, submission, "gnt-node", "add")


# `gnt-node modify`: change the role and the parameters of a node.
#
# Source: opcodes.md 4, NODE_SET_PARAMS.


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
@click.option("-D", "--drained", type=YES_NO, help="Whether it is drained: takes nothing new.")
@click.option("-O", "--offline", type=YES_NO, help="Whether it is offline, and not called.")
@click.option("--auto-promote", is_flag=True, help="Let another node become candidate in its place.")
@click.option("--master-capable", type=YES_NO, help="Whether it may be a master candidate.")
@click.option("--vm-capable", type=YES_NO, help="Whether it may have instances.")
@click.option("-s", "--secondary-ip", metavar="IP", help="Its second address.")
@click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Its own parameters; 'default' ends one.")
@click.option("--powered", "--node-powered", "powered", type=YES_NO, help="Whether it is switched on.")
@click.option("-f", "--force", is_flag=True, help="Also if too few master candidates are left.")
@submit_options
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def modify(name: str, submission: SubmissionOptions, **given: object) -> int:
    """Change the role and the parameters of NODE; what is left out stays.

    A node is a candidate, drained, offline, or none of these. One that returns becomes a candidate if the pool has
    room. Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, **given}
    return carry_out(op, submission, "gnt-node", "modify", tell_changes("node", "node", name))


# `gnt-node remove`: take a node out of the cluster.
#
# Source: opcodes.md 4, NODE_REMOVE.


@click.command("remove", cls=Command, examples=("gnt-node remove web7",))
@submit_options
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def remove(name: str, submission: SubmissionOptions) -> int:
    """Take NODE out of the cluster, also if it is dead; it must not be the master, nor have instances.

    Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_NODE_REMOVE", "node_name": name}, submission, "gnt-node", "remove")
