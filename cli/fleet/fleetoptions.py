"""The options that spread a command over nodes and values.

Source: DESIGN sections 13, "Fleet", and 16.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypedDict

import attrs
import click

from cli.choosing.namecompletion import complete_group, complete_node
from cli.fleet.eachvalues import Variable, lines_of, marked, read_variable, variable
from cli.options import F, with_options
from common.errors import InvalidRequest

# what stands for the node in names of locks
NODE: Final = "node"
NODE_MARK: Final = "{node}"
_MARK: Final = re.compile(r"\{\w*\}")


@attrs.frozen
class FleetWish:
    """On which nodes and for which values a command is to run, and how many at once."""

    # names, in the order given
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    # all nodes of the cluster
    is_each: bool = False
    # it runs for each combination of their values
    variables: tuple[Variable, ...] = ()
    # number of jobs at once; None: all
    at_most: int | None = None
    # number of failures after which further nodes begin; None: any
    failures: int | None = None

    @property
    def has_nodes(self) -> bool:
        return bool(self.nodes or self.groups or self.is_each)

    @property
    def is_batch(self) -> bool:
        """Whether it may have more than one job."""
        return len(self.nodes) > 1 or bool(self.groups or self.is_each or self.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that stand in braces for values."""
        return (*(each.name for each in self.variables), *((NODE,) if self.has_nodes else ()))


class EachType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`host=web1,web2`, `n=1..100`, `file=@LIST`."""

    name = "each"

    def convert(self, value: str | Variable, param: click.Parameter | None, ctx: click.Context | None) -> Variable:
        if isinstance(value, Variable):
            return value
        name, equals, text = value.partition("=")
        try:
            if not equals:
                raise InvalidRequest(f"'{value:.40}' has no values; write NAME=VALUE,VALUE or NAME=@FILE")
            return variable(name, _file_lines(text[1:])) if text.startswith("@") else read_variable(name, text)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "NAME=VALUE,..."


def _file_lines(path: str) -> list[str]:
    """Raises: InvalidRequest: it cannot be read, or is not UTF-8."""
    try:
        if path != "-":
            return lines_of(Path(path).read_text(encoding="utf-8"))
        if sys.stdin is None:
            raise InvalidRequest("standard input is closed; name a file, or pipe the values in")
        return lines_of(sys.stdin.buffer.read().decode())
    except UnicodeDecodeError:
        raise InvalidRequest(f"'{path}' is not UTF-8 text") from None
    except OSError as error:
        raise InvalidRequest(f"cannot read '{path}': {error.strerror}") from None


class FleetOptions(TypedDict):
    """What `fleet_options` pass to a verb."""

    node_names: Sequence[str]
    node_groups: Sequence[str]
    is_each_node: bool
    each: Sequence[Variable]
    at_most: int | None
    is_stopping: bool
    max_failures: int | None


def fleet_options(function: F) -> F:
    """`--node`, `--node-group`, `--each-node` and `--each`; `--at-most`, `--stop-on-failure` and `--max-failures`."""
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
        click.option(
            "--each",
            type=EachType(),
            multiple=True,
            help="Run it for each value, which stands for {NAME} in the command, --env, --cwd, --lock, --name and "
            "--label: host=web1,web2, n=1..100, n=01..99..2, file=@LIST (a value a line; @- reads standard input); "
            "repeatable: each combination.",
        ),
        click.option("--at-most", type=click.IntRange(1), metavar="N", help="At most N of these jobs at once."),
        click.option(
            "--stop-on-failure",
            "is_stopping",
            is_flag=True,
            help="After a failure no further of these jobs begins; the rest is canceled.",
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
    known = [f"{{{name}}}" for name in wish.names]
    for name in names:
        mark = next((mark for mark in _MARK.findall(name) if mark not in known), None)
        if wish.names and mark is not None:
            stands = "stands for the node" if known == [NODE_MARK] else "have values"
            raise click.UsageError(f"'{mark}' in --lock {name} stands for nothing; {', '.join(known)} {stands}")
        if not wish.names and NODE_MARK in name:
            raise click.UsageError(
                f"'{NODE_MARK}' in --lock {name} is for commands on nodes; "
                "name them by --node, --node-group or --each-node"
            )


def check_shell_words(words: Iterable[str], wish: FleetWish) -> None:
    """Raises: UsageError: a shell would read a value as its own words."""
    names = [each.name for each in wish.variables]
    if (word := next(marked(names, words), None)) is not None:
        name = next(name for name in names if f"{{{name}}}" in word)
        raise click.UsageError(
            f"with --shell no value is put into the command, as the shell would read it; write "
            f'"$GANTRY_EACH_{name}" for {{{name}}}'
        )


def read_fleet_wish(options: FleetOptions) -> FleetWish:
    """Read the options of `fleet_options`.

    Raises: UsageError: they do not fit together.
    """
    nodes, groups, is_each_node = options["node_names"], options["node_groups"], options["is_each_node"]
    max_failures, is_stopping = options["max_failures"], options["is_stopping"]
    if is_each_node and (nodes or groups):
        other = "--node" if nodes else "--node-group"
        raise click.UsageError(f"--each-node takes all nodes already; leave it out, or {other}")
    if is_stopping and max_failures:
        raise click.UsageError(f"--stop-on-failure allows no failure, --max-failures {max_failures}; give one of them")
    if any(not name for name in (*nodes, *groups)):
        raise click.UsageError("--node and --node-group need a name; 'gnt-node list -o name,group' shows all")
    wish = FleetWish(
        tuple(dict.fromkeys(nodes)),
        tuple(dict.fromkeys(groups)),
        is_each_node,
        tuple(options["each"]),
        options["at_most"],
        0 if is_stopping else max_failures,
    )
    _check_batch(wish, is_stopping=is_stopping)
    return wish


def _check_batch(wish: FleetWish, *, is_stopping: bool) -> None:
    """Raises: UsageError: what is for several jobs stands with one, or a name stands for two things."""
    if wish.has_nodes and any(each.name == NODE for each in wish.variables):
        raise click.UsageError(f"{NODE_MARK} stands for the nodes that are named; give --each another name")
    if not wish.is_batch and (wish.at_most is not None or wish.failures is not None):
        option = "--at-most" if wish.at_most is not None else "--stop-on-failure" if is_stopping else "--max-failures"
        raise click.UsageError(
            f"{option} is for several jobs; name nodes by --node, --node-group or --each-node, or values by --each"
        )
