"""`gnt-filter add`: a new rule, as predicates and action."""

from typing import Unpack

import click

from cli.commands import Command
from cli.filter.wireform import WireOptions, set_wire_rule, wire_options


@click.command(
    "add",
    cls=Command,
    examples=("""gnt-filter add --action PAUSE --predicates '[["opcode", ["=~", "OP_ID", "^OP_NODE_"]]]'""",),
)
@wire_options
def add(**options: Unpack[WireOptions]) -> int:
    """Add a rule, and print its uuid."""
    return set_wire_rule(None, **options)
