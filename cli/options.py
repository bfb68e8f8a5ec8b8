"""Options that several verbs share."""

from collections.abc import Callable
from typing import TypeVar

import click

from cli.context import NO_PAGER

F = TypeVar("F", bound=Callable[..., object])


def with_options(function: F, *options: Callable[[F], F]) -> F:
    """Add these options to a command; its help shows them in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def table_options(function: F) -> F:
    """`--no-headers`, `--separator` and `--no-pager`, for verbs that show a table."""
    return with_options(
        function,
        click.option("--no-headers", is_flag=True, help="Leave out the header."),
        click.option("--separator", metavar="TEXT", help="Put this between the columns, and do not align them."),
        click.option(
            "--no-pager",
            is_flag=True,
            expose_value=False,
            callback=lambda ctx, _, value: ctx.meta.update({NO_PAGER: value}),
            help="Show a long table at once, also on a terminal.",
        ),
    )
