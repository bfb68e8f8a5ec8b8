"""Names of schedules as the user types them."""

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ScheduleNameType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """The name of a schedule; the shell completes it."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cli.gantry.completion import complete_schedules

        # no command runs while the shell asks, so its context is not yet the current one
        with ctx.scope(cleanup=False):
            return complete_schedules(incomplete)


SCHEDULE: Final = ScheduleNameType()
