"""`gantry cluster`: alone it shows the mastership; its verbs move it, and those of `gnt-cluster` stand beside them."""

from typing import Final

import click

from cli.cluster.main import VERBS as GANETI_VERBS
from cli.commands import CommandGroup, CommandVerb
from cli.exitcodes import DONE

VERBS: Final = {
    "switchover": CommandVerb(
        "cli.gantry.cluster.mastership:switchover", "Move the mastership to another healthy node."
    ),
    "takeover": CommandVerb(
        "cli.gantry.cluster.mastership:takeover", "Make a node the master although work may be lost."
    ),
    "maintenance": CommandVerb(
        "cli.gantry.cluster.mastership:maintenance", "Keep the mastership where it is: on or off."
    ),
    "accept-restore": CommandVerb(
        "cli.gantry.cluster.recovery:accept_restore", "Go on with an etcd that was restored or replaced."
    ),
    "convert": CommandVerb(
        "cli.gantry.cluster.recovery:convert", "Begin or end to use etcd, without losing the queue."
    ),
    "recover": CommandVerb("cli.gantry.cluster.recovery:recover", "Begin anew after all of etcd was lost."),
    "run-as-submitter": CommandVerb(
        "cli.cluster.init:run_as_submitter", "Let commands run as the users who submit them, or not."
    ),
    "test-watchdog": CommandVerb(
        "cli.gantry.cluster.mastership:test_watchdog", "Restart this machine by its watchdog, as a test."
    ),
}


class ShowingGroup(CommandGroup):
    """A group that without a verb does something of its own, instead of showing its help."""

    def __init__(self) -> None:
        super().__init__(
            "cluster",
            {**VERBS, **GANETI_VERBS},
            help=(
                "The cluster. Without a verb: who is the master and for how long, which nodes could follow it, "
                "and how etcd does; the exit code is 3 if no node is the master. "
                "The verbs to recover and test-watchdog are for a lease in etcd, those from init on are gnt-cluster's."
            ),
            examples=(
                "gantry cluster",
                "gantry cluster --output json | jq -r .master",
                "gantry cluster switchover node2",
            ),
        )
        self.invoke_without_command = True
        self.no_args_is_help = False
        self.callback = _show


def _show() -> int:
    if click.get_current_context().invoked_subcommand is not None:
        return DONE
    # imported late: the verbs do without it
    from cli.gantry.cluster.mastership import show_cluster

    return show_cluster()


group: Final = ShowingGroup()
