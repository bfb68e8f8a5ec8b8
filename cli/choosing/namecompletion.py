"""Completion of the names of nodes, node groups and networks, for arguments and options.

Source: cli.md 1.
"""

from typing import TYPE_CHECKING

import click

from common.query.kinds import QueryKind

if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of nodes."""
    return _complete(ctx, QueryKind.NODE, incomplete)


def complete_candidate(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of master candidates, by the files of this node: where they are needed there may be no master."""
    from cli.gantry.completion import complete_candidates

    with ctx.scope(cleanup=False):
        return complete_candidates(incomplete)


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of node groups."""
    return _complete(ctx, QueryKind.GROUP, incomplete)


def complete_network(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of networks."""
    return _complete(ctx, QueryKind.NETWORK, incomplete)


def _complete(ctx: click.Context, kind: QueryKind, incomplete: str) -> "list[CompletionItem]":
    from cli.gantry.completion import complete_names

    # no command runs while the shell asks, so its context is not yet the current one
    with ctx.scope(cleanup=False):
        return complete_names(kind, incomplete)
