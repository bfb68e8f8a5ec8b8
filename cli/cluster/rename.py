"""`gnt-cluster rename`: give the cluster another name.

Source: opcodes.md 4, CLUSTER_RENAME.
"""

from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import NOT_CONFIRMED
from cli.screen import complain, confirm, is_interactive, say, say_json
from cli.submitting.submitoptions import SubmitOptions, submit_options
from protocol.luxi.cluster import QueryConfigValues


@click.command("rename", cls=Command, examples=("gnt-cluster rename lab.example.com", "gnt-cluster rename -f lab"))
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@submit_options
@click.argument("name", metavar="NAME")
def rename(name: str, force: bool, **options: Unpack[SubmitOptions]) -> int:
    """Give the cluster the name NAME, under the lock that keeps all other jobs out.

    The name must have the address that the cluster has; one machine alone need have none. Waits for the job, except
    with --submit.
    """
    question = f"All jobs wait until the cluster is called '{name}'. Rename it?"
    if not force and not confirm(question):
        complain("the cluster was not renamed" + ("" if is_interactive() else "; without a terminal, confirm with -f"))
        return NOT_CONFIRMED
    (old,) = ask_luxid(QueryConfigValues(("cluster_name",)))
    op = {"OP_ID": "OP_CLUSTER_RENAME", "name": name}
    return carry_out(op, options, "gnt-cluster", "rename", lambda result: _tell(old, result))


def _tell(old: object, new: object) -> None:
    if new is None:
        # a dry run
        return
    if wants_json():
        say_json(new)
    else:
        say(f"Cluster renamed from '{old}' to '{new}'")
