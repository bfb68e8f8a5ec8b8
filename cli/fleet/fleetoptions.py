"""The options that spread a command over nodes.

Source: DESIGN section 13, "Fleet".
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypedDict

import attrs
import click

from cli.choosing.namecompletion import complete_group, complete_node
from cli.options import F, with_options

# what stands for the node in names of locks
NODE_MARK: Final = "{node}"
_MARK: Final = re.compile(r"\{\w*\}")


@attrs.frozen
class FleetWish:
    """On which nodes a command is to run, and how many at once."""

    # names, in the order given
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    # all nodes of the cluster
    is_each: bool = False
    # number of nodes at once; None: all
    at_most: int | None = None
    # number of failures after which further nodes begin; None: any
    failures: int | None = None

    @property
    def has_nodes(self) -> bool:
        return bool(self.nodes or self.groups or self.is_each)

    @property
    def is_batch(self) -> bool:
        """Whether it may have more than one job."""
        return len(self.nodes) > 1 or bool(self.groups or self.is_each)


class FleetOptions(TypedDict):
    """What `fleet_options` pass to a verb."""

    node_names: Sequence[str]
    node_groups: Sequence[str]
    is_each_node: bool
    at_most: int | None
    is_stopping: bool
    max_failures: int | None


def fleet_options(function: F) -> F:
    """`--node`, `--node-group` and `--each-node`; `--at-most`, `--stop-on-failure` and `--max-failures`."""
    return with_options(
        function,
        click.option(
            "--node",
            "node_names",
            metavar="NAME",
            multiple=True,
            shell_complete=complete_node,
            help="Run it on this node, under its lock (shared); repeatable: one job a node.",
        ),
        click.option(
            "--node-group",
            "node_groups",
            metavar="NAME",
            multiple=True,
            shell_complete=complete_group,
            help="Run it on each node of this group that is neither offline nor drained; repeatable.",
        ),
        click.option(
            "--each-node",
            "is_each_node",
            is_flag=True,
            help="Run it on each node of the cluster that is neither offline nor drained.",
        ),
        click.option("--at-most", type=click.IntRange(1), metavar="N", help="On at most N nodes at once."),
        click.option(
            "--stop-on-failure",
            "is_stopping",
            is_flag=True,
            help="After a failure no further node begins; the rest is canceled.",
        ),
        click.option(
            "--max-failures",
            type=click.IntRange(0),
            metavar="N",
            help="The same, after more than N failures; 0 is --stop-on-failure.",
        ),
    )


def check_lock_marks(names: Iterable[str], wish: FleetWish) -> None:
    """Raises: UsageError: a name of a lock has braces that stand for nothing."""
    for name in names:
        mark = next((mark for mark in _MARK.findall(name) if mark != NODE_MARK), None)
        if wish.has_nodes and mark is not None:
            raise click.UsageError(f"'{mark}' in --lock {name} stands for nothing; {NODE_MARK} stands for the node")
        if not wish.has_nodes and NODE_MARK in name:
            raise click.UsageError(
                f"'{NODE_MARK}' in --lock {name} is for commands on nodes; "
                "name them by --node, --node-group or --each-node"
            )


def read_fleet_wish(
    node_names: Sequence[str],
    node_groups: Sequence[str],
    is_each_node: bool,
    at_most: int | None,
    is_stopping: bool,
    max_failures: int | None,
) -> FleetWish:
    """Read the options of `fleet_options`.

    Raises: UsageError: they do not fit together.
    """
    if is_each_node and (node_names or node_groups):
        other = "--node" if node_names else "--node-group"
        raise click.UsageError(f"--each-node takes all nodes already; leave it out, or {other}")
    if is_stopping and max_failures:
        raise click.UsageError(f"--stop-on-failure allows no failure, --max-failures {max_failures}; give one of them")
    if any(not name for name in (*node_names, *node_groups)):
        raise click.UsageError("--node and --node-group need a name; 'gnt-node list -o name,group' shows all")
    wish = FleetWish(
        tuple(dict.fromkeys(node_names)),
        tuple(dict.fromkeys(node_groups)),
        is_each_node,
        at_most,
        0 if is_stopping else max_failures,
    )
    if not wish.is_batch and (at_most is not None or wish.failures is not None):
        option = "--at-most" if at_most is not None else "--stop-on-failure" if is_stopping else "--max-failures"
        raise click.UsageError(f"{option} is for several nodes; name them by --node, --node-group or --each-node")
    return wish
