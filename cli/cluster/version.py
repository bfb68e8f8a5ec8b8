"""`gnt-cluster version`: the versions of software and protocols.

Source: luxid.md 2.8.
"""

from typing import Final

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from protocol.luxi.cluster import QueryClusterInfo

_LINES: Final = {
    "Software version": "software_version",
    "Internode protocol": "protocol_version",
    "Configuration format": "config_version",
    "OS api version": "os_api_version",
    "Export interface": "export_version",
    "VCS version": "vcs_version",
}


@click.command("version", cls=Command, examples=("gnt-cluster version",))
def version() -> int:
    """Tell the versions of the software, of its protocols and of its files."""
    facts = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json({name: facts[name] for name in _LINES.values()})
    else:
        for title, name in _LINES.items():
            say(f"{title}: {facts[name]}")
    return DONE
