"""The program `gantry`: the daemons of an installation, and all other programs as groups."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb
from cli.program import run

VERBS: Final = {
    "up": CommandVerb("cli.gantry.up:up", "Start the daemons; an empty root becomes a cluster of one node."),
    "status": CommandVerb("cli.gantry.status:status", "Which daemons run, since when, and what the queue holds."),
    "logs": CommandVerb("cli.gantry.logs:logs", "The logs of all daemons, in the order of time."),
    "export-traces": CommandVerb(
        "cli.gantry.exporttraces:export_traces", "Send each ended job as a trace to an OpenTelemetry collector."
    ),
    "join": CommandVerb("cli.gantry.join:join", "Make this machine a node of a cluster."),
    "orphaned-locks": CommandVerb(
        "cli.gantry.orphans:orphaned_locks", "Locks kept for commands on nodes that do not answer."
    ),
    "fenced": CommandVerb("cli.gantry.orphans:fenced", "Declare that nothing runs on a node any more."),
    "prune": CommandVerb("cli.gantry.upkeep:prune", "Remove old ended jobs and their outputs, by the settings."),
    "repair": CommandVerb("cli.gantry.upkeep:repair", "What the queue has lost, and which nodes have it."),
    "schedule": CommandVerb("cli.gantry.schedule.main:group", "Jobs that are submitted again and again."),
    "down": CommandVerb("cli.gantry.down:down", "Stop the daemons; running jobs go on."),
    "job": CommandVerb("cli.job.main:group", "Submit, watch and cancel jobs (gnt-job)."),
    "filter": CommandVerb("cli.filter.main:group", "Which jobs may run, and how many at once (gnt-filter)."),
    "locks": CommandVerb("cli.debug.locks:locks", "Who holds which locks, and who waits for them (gnt-debug locks)."),
    "debug": CommandVerb("cli.debug.main:group", "Debug and test the engine (gnt-debug)."),
    "node": CommandVerb("cli.node.main:group", "The nodes of the cluster (gnt-node)."),
    "group": CommandVerb("cli.group.main:group", "The node groups of the cluster (gnt-group)."),
    "network": CommandVerb("cli.network.main:group", "The networks of the cluster (gnt-network)."),
    "cluster": CommandVerb("cli.gantry.cluster.main:group", "The mastership; the cluster and its queue (gnt-cluster)."),
    "user": CommandVerb("cli.gantry.user:user", "People who call over HTTP, and their rights."),
    "token": CommandVerb("cli.gantry.token:token", "Tokens of programs that call over HTTP."),
    "resource": CommandVerb("cli.gantry.resource:resource", "Counted resources, such as licences, that jobs use."),
    "completion": CommandVerb("cli.completion:completion", "Print the completion script of a shell."),
    "help": CommandVerb("cli.gantry.help:help_on", "Explain a topic, such as exit codes."),
    "version": CommandVerb("cli.gantry.help:version", "Print the version."),
}

group = CommandGroup(
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
