"""The verbs of `gnt-group` that change node groups."""

from collections.abc import Mapping, Sequence
from typing import cast

import click

from cli.commands import Command
from cli.options import KEY_VALUES, F, complete_group, complete_node, with_options
from cli.parameters import BOUNDS_OPTION, DEFAULT, DISK_OPTION, RATIO_OPTIONS, STATE_OPTIONS, OfThings, parameters_of
from cli.submitting.options import SubmissionOptions, submit_options
from cli.submitting.submission import carry_out, tell_changes
from common.objects.kinds import AllocPolicy, DiskTemplate

# The options that set policies and parameters of a node group.
#
# Source: opcodes.md 4, GROUP_ADD and GROUP_SET_PARAMS; Ganeti's `gnt-group modify --help` (seen).


def group_options(function: F) -> F:
    """All options that set a parameter."""
    policies = [each.value for each in AllocPolicy]
    return with_options(
        function,
        click.option("--alloc-policy", type=click.Choice(policies), help="Whether new instances may be placed here."),
        click.option("--node-parameters", "ndparams", type=KEY_VALUES, help="Parameters of its nodes: ssh_port=2222."),
        DISK_OPTION,
        BOUNDS_OPTION,
        click.option(
            "--ipolicy-disk-templates", "templates", metavar="TEMPLATE,...", help="Disk templates of instances."
        ),
        *RATIO_OPTIONS,
        *STATE_OPTIONS,
    )


def op_values(given: Mapping[str, object]) -> dict[str, object]:
    """The parameters of the opcode; those that are not given are null.

    Args: given: all that `group_options` pass.
    Raises: click.UsageError: a disk template is unknown.
    """
    known = [each.value for each in DiskTemplate]
    for name, _ in cast(OfThings, given["diskparams"]):
        if name not in known:
            raise click.UsageError(f"there is no disk template '{name:.40}'; known are {', '.join(known)}")
    templates = given["templates"]
    names = templates.split(",") if isinstance(templates, str) and templates != DEFAULT else templates
    return parameters_of({**given, "templates": names})


# `gnt-group add`: make a node group.
#
# Source: opcodes.md 4, GROUP_ADD.


@click.command(
    "add",
    cls=Command,
    examples=("gnt-group add rack2", "gnt-group add --alloc-policy last_resort --node-parameters ssh_port=2222 rack2"),
)
@group_options
@submit_options
@click.argument("name", metavar="GROUP")
def add(name: str, submission: SubmissionOptions, **given: object) -> int:
    """Make the node group GROUP; nodes are put into it with: gnt-group assign-nodes.

    What is left out is as the cluster has it. Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_GROUP_ADD", "group_name": name, **op_values(given)}, submission, "gnt-group", "add")


# `gnt-group modify`: change the policies and parameters of a node group.
#
# Source: opcodes.md 4, GROUP_SET_PARAMS.


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-group modify --alloc-policy unallocable rack2",
        "gnt-group modify --node-parameters ssh_port=default rack2",
        "gnt-group modify -D drbd:resync-rate=2048 -D plain:stripes=2 rack2",
        "gnt-group modify --ipolicy-vcpu-ratio 3.5 --ipolicy-disk-templates plain,drbd rack2",
    ),
)
@group_options
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
def modify(name: str, submission: SubmissionOptions, **given: object) -> int:
    """Change GROUP; what is left out stays, and 'default' makes a value the cluster's again.

    Instances that do not keep to a changed policy are named, and stay as they are. Waits for the job, except with
    --submit.
    """
    values = op_values(given)
    if all(value is None for value in values.values()):
        raise click.UsageError(
            "nothing to change; name a value, as in: gnt-group modify --alloc-policy preferred GROUP"
        )
    op = {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": name, **values}
    return carry_out(op, submission, "gnt-group", "modify", tell_changes("group", "node group", name))


# `gnt-group rename`: give a node group another name.
#
# Source: opcodes.md 4, GROUP_RENAME.


@click.command("rename", cls=Command, examples=("gnt-group rename rack2 north",))
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
@click.argument("new_name", metavar="NAME")
def rename(name: str, new_name: str, submission: SubmissionOptions) -> int:
    """Give GROUP the name NAME; its uuid and all that is in it stay.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_GROUP_RENAME", "group_name": name, "new_name": new_name}
    return carry_out(op, submission, "gnt-group", "rename")


# `gnt-group remove`: remove a node group.
#
# Source: opcodes.md 4, GROUP_REMOVE.


@click.command("remove", cls=Command, examples=("gnt-group remove rack2",))
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
def remove(name: str, submission: SubmissionOptions) -> int:
    """Remove GROUP, which must have no nodes; the last group stays.

    Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_GROUP_REMOVE", "group_name": name}, submission, "gnt-group", "remove")


# `gnt-group assign-nodes`: put nodes into a node group.
#
# Source: opcodes.md 4, GROUP_ASSIGN_NODES.


@click.command(
    "assign-nodes",
    cls=Command,
    examples=("gnt-group assign-nodes rack2 web7 web8", "gnt-group assign-nodes --force rack2 web7"),
)
@click.option("-f", "--force", is_flag=True, help="Also if instances then have nodes in several groups.")
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=complete_node)
def assign_nodes(name: str, nodes: Sequence[str], force: bool, submission: SubmissionOptions) -> int:
    """Put these nodes into GROUP; they leave the groups in which they are.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": name, "nodes": list(nodes), "force": force}
    return carry_out(op, submission, "gnt-group", "assign-nodes")
