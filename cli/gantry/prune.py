"""`gantry prune`: archive and remove what is kept no longer, by the settings.

Source: DESIGN section 16; everyday.md section g.
"""

from collections.abc import Iterator

import attrs
import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.words.times import clock, iso
from common.words.usage import size
from protocol.luxi.history import Prune, Pruned


@click.command("prune", cls=Command, examples=("gantry prune --dry-run", "gantry prune", "gantry prune --output json"))
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
def prune(dry_run: bool) -> int:
    """Archive and remove ended jobs, their outputs and what belongs to them, as '[retention]' of the settings says.

    luxid does so by itself every hour, if 'enabled' is set there. Kept in any case are the latest jobs of each name,
    and what a job that has not ended still needs. The history shows removed jobs for longer.
    """
    done = Pruned()
    with open_luxid() as client:
        while True:
            done = _together(done, client.call(Prune(dry_run)))
            if not done.left:
                break
    if wants_json():
        say_json(_as_json(done))
    else:
        for line in _lines(done, is_dry=dry_run):
            say(line)
    return DONE


def _together(before: Pruned, now: Pruned) -> Pruned:
    """What two calls have removed."""
    counts = {
        field.name: getattr(before, field.name) + getattr(now, field.name)
        for field in attrs.fields(Pruned)
        if field.name not in ("oldest", "newest", "left")
    }
    ends = [end for each in (before, now) for end in (each.oldest, each.newest) if end is not None]
    return Pruned(**counts, oldest=min(ends, default=None), newest=max(ends, default=None), left=now.left)


def _as_json(done: Pruned) -> dict[str, object]:
    wire = attrs.asdict(done)
    del wire["left"]
    for name in ("oldest", "newest"):
        wire[f"{name}_iso"] = None if wire[name] is None else iso(wire[name])
    return wire


def _lines(done: Pruned, *, is_dry: bool) -> Iterator[str]:
    verb = "would be " if is_dry else ""
    counts = (
        (done.archived, "jobs", "archived"),
        (done.jobs, "archived jobs", "removed"),
        (done.outputs, "outputs", "removed"),
        (done.waits, "histories of waits", "removed"),
        (done.keys, "submission keys", "removed"),
        (done.rows, "rows of the history", "removed"),
    )
    for count, what, done_to in counts:
        if not count:
            continue
        more = ""
        if what == "archived jobs" and done.oldest is not None and done.newest is not None:
            more = f", which ended from {clock(done.oldest)} to {clock(done.newest)}"
        if what == "outputs":
            more = f", {size(done.output_bytes)}"
        yield f"{count} {what} {verb}{done_to}{more}"
    if not any(count for count, _, _ in counts):
        yield "nothing is due: '[retention]' of the settings says what is kept"
