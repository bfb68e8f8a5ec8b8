"""`gnt-debug violations`: changes of the configuration without the locks of what was changed.

Source: DESIGN section 8.
"""

from typing import Final

import attrs
import click

from cli.commands import Command
from cli.connection import ask_wconfd
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.screen import remark, say_json, say_styled
from cli.tables import Column, Layout, render
from common.words.times import clock
from protocol.wconfd.violations import ListLockViolations

_COLUMNS: Final = tuple(map(Column, ("AT", "PID", "UID", "METHOD", "CHANGED", "LOCK", "REFUSED")))


@click.command(
    "violations", cls=Command, examples=("gnt-debug violations", "gnt-debug violations --output json | jq .count")
)
def violations() -> int:
    """Show which processes have changed the configuration without the locks of what they changed.

    They are counted from the start of wconfd; the latest 200 are shown. With "require_locks = true" in "[wconfd]" such
    changes are refused.
    """
    found = ask_wconfd(ListLockViolations())
    if wants_json():
        say_json(attrs.asdict(found))
        return DONE
    if not found.count:
        remark("there are none: each change was made under the locks of what it changed")
        return DONE
    if found.count > len(found.latest):
        remark(f"{found.count} since the start of wconfd; these are the latest {len(found.latest)}")
    rows = [
        [clock(each.at), str(each.pid), str(each.uid), each.method, each.changed, each.lock, _yes(each.is_refused)]
        for each in found.latest
    ]
    for line in render(_COLUMNS, rows, Layout(has_color=uses_color())):
        say_styled(line)
    return DONE


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
