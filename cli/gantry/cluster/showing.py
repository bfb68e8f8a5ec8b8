"""`gantry cluster` without a verb: who is the master, who could follow it, and how etcd does."""

import attrs

from cli.context import uses_color, wants_json
from cli.exitcodes import DONE, NOT_REACHED
from cli.gantry.cluster.asking import ask
from cli.gantry.cluster.clustertext import cluster_lines
from cli.screen import say_json, say_styled
from common.lease.records import Role
from protocol.keeperd.calls import ClusterView, ShowCluster


def show_cluster() -> int:
    """Print what this node's keeperd knows. Returns: the exit code; 3: nobody is the master."""
    view = ask(ShowCluster())
    if wants_json():
        say_json(view_json(view))
    else:
        show_lines(view)
    return DONE if view.master else NOT_REACHED


def show_lines(view: ClusterView) -> None:
    for line in cluster_lines(view, has_color=uses_color()):
        say_styled(line)


def view_json(view: ClusterView) -> object:
    """All fields, also those at their defaults."""
    return attrs.asdict(view, value_serializer=lambda _, __, value: value.value if isinstance(value, Role) else value)
