"""The shape of commands that move the mastership: their help ends with the table of their exit codes."""

import click

from cli.commands import Command
from cli.exitcodes import MOVING


class ClusterCommand(Command):
    EXIT_CODES = MOVING

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(row.code, row.meaning) for row in MOVING])
        super().format_epilog(ctx, formatter)
