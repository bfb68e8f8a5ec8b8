"""The program `gantry`: the daemons of an installation, and all other programs as groups."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.program import run

VERBS: Final = {
    "up": Verb("cli.gantry.up:up", "Start the daemons; an empty root becomes a cluster of one node."),
    "status": Verb("cli.gantry.status:status", "Which daemons run, since when, and what the queue holds."),
    "logs": Verb("cli.gantry.logs:logs", "The logs of all daemons, in the order of time."),
    "join": Verb("cli.gantry.join:join", "Make this machine a node of a cluster."),
    "ghosts": Verb("cli.gantry.ghosts:ghosts", "Locks kept for commands on nodes that do not answer."),
    "fenced": Verb("cli.gantry.ghosts:fenced", "Say that nothing runs on a node any more."),
    "prune": Verb("cli.gantry.upkeep:prune", "Remove old ended jobs and their outputs, by the settings."),
    "repair": Verb("cli.gantry.upkeep:repair", "What the queue has lost, and which nodes have it."),
    "schedule": Verb("cli.gantry.schedule.main:group", "Jobs that are submitted again and again."),
    "down": Verb("cli.gantry.down:down", "Stop the daemons; running jobs go on."),
    "job": Verb("cli.job.main:group", "Submit, watch and cancel jobs (gnt-job)."),
    "filter": Verb("cli.filter.main:group", "Which jobs may run, and how many at once (gnt-filter)."),
    "locks": Verb("cli.debug.locks:locks", "Who holds which locks, and who waits for them (gnt-debug locks)."),
    "debug": Verb("cli.debug.main:group", "Look into the engine, and try it (gnt-debug)."),
    "node": Verb("cli.node.main:group", "The nodes of the cluster (gnt-node)."),
    "group": Verb("cli.group.main:group", "The node groups of the cluster (gnt-group)."),
    "network": Verb("cli.network.main:group", "The networks of the cluster (gnt-network)."),
    "cluster": Verb("cli.gantry.cluster.main:group", "The mastership; the cluster and its queue (gnt-cluster)."),
    "user": Verb("cli.gantry.user:user", "People who call over HTTP, and their rights."),
    "token": Verb("cli.gantry.token:token", "Tokens of programs that call over HTTP."),
    "resource": Verb("cli.gantry.resource:resource", "Counted resources, such as licences, that jobs use."),
    "completion": Verb("cli.completion:completion", "Print the completion script of a shell."),
    "help": Verb("cli.gantry.help:help_on", "Tell about a topic, such as exit codes."),
    "version": Verb("cli.gantry.help:version", "Print the version."),
}

group = Group(
    "gantry",
    VERBS,
    help="A job engine: jobs under locks, after other jobs, and never lost.",
    examples=(
        "gantry --root ~/try up --detach",
        "gantry --root ~/try job run --lock node/web1 --wait -- uname -a",
        "gantry --root ~/try status",
        "gantry --root ~/try down",
    ),
)


def main() -> NoReturn:
    run(group, "gantry")
