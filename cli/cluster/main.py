"""The program `gnt-cluster`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import CommandGroup, CommandVerb, tag_verbs
from cli.program import run

VERBS: Final = {
    "init": CommandVerb("cli.cluster.init:init", "Make a cluster of one node."),
    "info": CommandVerb("cli.cluster.info:info", "Show the parameters of the cluster."),
    "modify": CommandVerb("cli.cluster.changing:modify", "Change the limits and parameters of the cluster."),
    "rename": CommandVerb("cli.cluster.changing:rename", "Give the cluster another name."),
    "show-ispecs-cmd": CommandVerb("cli.cluster.info:show_ispecs_cmd", "Print the command that sets these limits."),
    "version": CommandVerb("cli.cluster.info:version", "Show the versions of software and protocols."),
    "verify": CommandVerb("cli.cluster.verify:verify", "Check the configuration and the files of this node."),
    "redist-conf": CommandVerb("cli.cluster.changing:redist_conf", "Send the configuration to all nodes again."),
    "join-token": CommandVerb("cli.cluster.join_token:join_token", "Make a token with which one machine joins."),
    "renew-crypto": CommandVerb("cli.cluster.changing:renew_crypto", "Renew the certificates of cluster and nodes."),
    "master-failover": CommandVerb("cli.cluster.master:master_failover", "Make this node the master."),
    "master-ping": CommandVerb("cli.cluster.master:master_ping", "Check whether this node is the master and serves."),
    "getmaster": CommandVerb("cli.cluster.master:getmaster", "Print the name of the master."),
    **tag_verbs("cluster"),
    "search-tags": CommandVerb("cli.tags:search_tags", "Find tags on all objects."),
    "queue": CommandVerb("cli.cluster.queue:queue", "Close or open the queue to new jobs."),
    "watcher": CommandVerb("cli.cluster.queue:watcher", "Pause or resume the watcher."),
}

group = CommandGroup(
    "gnt-cluster",
    VERBS,
    help="The cluster and its queue.",
    examples=(
        "gnt-cluster info",
        "gnt-cluster verify",
        "gnt-cluster modify --max-running-jobs 20",
        "gnt-cluster queue drain",
    ),
)


def main() -> NoReturn:
    run(group, "gnt-cluster")
