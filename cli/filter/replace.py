"""`gnt-filter replace`: put another rule in the place of one."""

from typing import Unpack

import click

from cli.commands import Command
from cli.filter.wireform import WireOptions, set_wire_rule, wire_options


@click.command(
    "replace", cls=Command, examples=("gnt-filter replace --action ACCEPT 7f4b2cb5-5b4c-4ba0-9ba3-4e1c4c0a9a2b",)
)
@wire_options
@click.argument("uuid")
def replace(uuid: str, **options: Unpack[WireOptions]) -> int:
    """Replace the rule with this UUID by another one, or create it; print the uuid."""
    return set_wire_rule(uuid, **options)
