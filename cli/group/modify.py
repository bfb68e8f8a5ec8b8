"""`gnt-group modify`: change the policies and parameters of a node group.

Source: opcodes.md 4, GROUP_SET_PARAMS.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_group
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.context import wants_json
from cli.group.values import GroupOptions, group_options, op_values, submission
from cli.screen import say, say_json
from cli.submitting.submitoptions import submit_options


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
def modify(name: str, **options: Unpack[GroupOptions]) -> int:
    """Change GROUP; what is left out stays, and 'default' makes a value the cluster's again.

    Instances that do not keep to a changed policy are named, and stay as they are. Waits for the job, except with
    --submit.
    """
    values = op_values(options)
    if all(value is None for value in values.values()):
        raise click.UsageError(
            "nothing to change; name a value, as in: gnt-group modify --alloc-policy preferred GROUP"
        )
    op = {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": name, **values}
    return carry_out(op, submission(options), "gnt-group", "modify", lambda result: _tell(name, result))


def _tell(name: str, result: object) -> None:
    changes = result if isinstance(result, list) else []
    if wants_json():
        say_json({"group": name, "changes": changes})
    elif changes:
        say(f"Modified node group {name}")
        for parameter, value in changes:
            say(f" - {parameter:<5} -> {value}")
