"""The program `gnt-cluster`; each verb is a module beside this one."""

from typing import Final, NoReturn

from cli.commands import Group, Verb, tag_verbs
from cli.program import run

VERBS: Final = {
    "init": Verb("cli.cluster.init:init", "Make a cluster of one node."),
    "info": Verb("cli.cluster.info:info", "Tell the parameters of the cluster."),
    "modify": Verb("cli.cluster.changing:modify", "Change the limits and parameters of the cluster."),
    "rename": Verb("cli.cluster.changing:rename", "Give the cluster another name."),
    "show-ispecs-cmd": Verb("cli.cluster.info:show_ispecs_cmd", "Tell the command that gives a cluster these limits."),
    "version": Verb("cli.cluster.info:version", "Tell the versions of software and protocols."),
    "verify": Verb("cli.cluster.verify:verify", "Check the configuration and the files of this node."),
    "redist-conf": Verb("cli.cluster.changing:redist_conf", "Send the configuration to all nodes again."),
    "join-token": Verb("cli.cluster.join_token:join_token", "Make a token with which one machine joins."),
    "renew-crypto": Verb("cli.cluster.changing:renew_crypto", "Renew the certificates of cluster and nodes."),
    "master-failover": Verb("cli.cluster.master:master_failover", "Make this node the master."),
    "master-ping": Verb("cli.cluster.master:master_ping", "Tell whether this node is the master, and serves."),
    "getmaster": Verb("cli.cluster.master:getmaster", "Tell the name of the master."),
    **tag_verbs("cluster"),
    "search-tags": Verb("cli.tags:search_tags", "Find tags on all objects."),
    "queue": Verb("cli.cluster.queue:queue", "Close or open the queue to new jobs."),
    "watcher": Verb("cli.cluster.queue:watcher", "Let the watcher rest, or go on."),
}

group = Group(
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
