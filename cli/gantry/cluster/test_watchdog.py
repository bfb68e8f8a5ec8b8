"""`gantry cluster test-watchdog`: restart this machine by its watchdog, as a test.

Source: lease.md 6.
"""

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.gantry.cluster.asking import ask, check_has_lease
from cli.screen import confirm, remark, say, say_json
from common.errors import Conflict
from protocol.keeperd.calls import TestWatchdog


@click.command("test-watchdog", cls=Command, examples=("gantry cluster test-watchdog",))
def test_watchdog() -> int:
    """Stop feeding the watchdog of THIS machine: it restarts at once, without warning, if the watchdog works.

    All that runs here is lost, jobs too. It asks twice, and only a terminal can answer.
    """
    settings = installation()
    check_has_lease(settings)
    name, device = settings.cluster.own_name, settings.keeperd.watchdog
    if not device:
        raise Conflict("this node has no watchdog: set 'watchdog' in [keeperd] of gantry.toml, such as /dev/watchdog")
    questions = (
        f"This machine, '{name}', will be restarted by {device}; all that runs here is lost. Go on?",
        f"Really restart '{name}' now?",
    )
    if not all(map(confirm, questions)):
        remark("nothing was done")
        return NOT_CONFIRMED
    ask(TestWatchdog())
    if wants_json():
        say_json({"node": name, "watchdog": device})
    else:
        say(f"{device} is not fed any more; if this machine still runs in a minute, the watchdog does not work")
    return DONE
