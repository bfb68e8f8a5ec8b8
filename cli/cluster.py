"""The program `gnt-cluster`; each verb is a module of `cli.clusters`."""

from typing import Final, NoReturn

from cli.commands import Group, Verb
from cli.run import run

VERBS: Final = {
    "init": Verb("cli.clusters.init:init", "Make a cluster of one node."),
    "info": Verb("cli.clusters.info:info", "Tell the parameters of the cluster."),
    "modify": Verb("cli.clusters.modify:modify", "Change the limits of the cluster."),
    "verify": Verb("cli.clusters.verify:verify", "Check the configuration and the files of this node."),
    "queue": Verb("cli.clusters.queue:queue", "Close or open the queue to new jobs."),
    "watcher": Verb("cli.clusters.watcher:watcher", "Let the watcher rest, or go on."),
}

group = Group("gnt-cluster", VERBS, help="The cluster and its queue.")


def main() -> NoReturn:
    run(group, "gnt-cluster")
