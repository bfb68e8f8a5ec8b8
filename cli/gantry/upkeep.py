"""Upkeep of the queue: `gantry prune` and `gantry repair`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, remark, say_json, say_result, say_styled
from cli.tables import Column, Layout, render
from common.words.fields import size
from common.words.times import clock, iso
from protocol.luxi.daemon import LostFile, Repair
from protocol.luxi.history import Prune, Pruned

# `gantry prune`: archive and remove what is kept no longer, by the settings.
#
# Source: DESIGN section 16; everyday.md section g.


@click.command("prune", cls=Command, examples=("gantry prune --dry-run", "gantry prune", "gantry prune --output json"))
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
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
    say_result(_as_json(done), *_lines(done, is_dry=dry_run))
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


# `gantry repair`: what the master's queue has lost, and where it can be had.
#
# Source: DESIGN section 11, "a job that is missing on the master".


_COLUMNS: Final = tuple(map(Column, ("LOST", "FOUND ON", "KNOWN BY", "BECOMES", "REMARK")))


@click.command(
    "repair", cls=Command, examples=("gantry repair", "gantry repair --fetch", "gantry repair --forget 7 --forget 9")
)
@click.option("--fetch", is_flag=True, help="Fetch what other nodes have.")
@click.option(
    "--forget",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="JOB",
    help="Miss this job no longer; other nodes lose it.",
)
def repair(fetch: bool, forget: tuple[int, ...]) -> int:
    """Show which jobs, submission keys, histories of waits, schedules and resources are lost here, and who has them.

    Nothing is changed without --fetch or --forget. A fetched job that had not ended comes back on hold ('gnt-job
    release' lets it start), or as an error if anything shows that it had started; a schedule comes back paused. What
    was removed by 'gantry prune', or by the retention, is not lost. The exit code is 1 if something is lost still.
    """
    with open_luxid() as client:
        reply = client.call(Repair(not fetch, forget))
        rows, unasked = [*reply.lost], {**reply.unasked}
        # each reply has a bounded number of files
        while reply.left and reply.lost:
            reply = client.call(Repair(not fetch, after=reply.lost[-1].file))
            rows += reply.lost
            unasked |= reply.unasked
    if wants_json():
        say_json({"lost": [attrs.asdict(row) for row in rows], "unasked": unasked})
    else:
        _show(rows, unasked)
    return DONE if all(row.is_done for row in rows) and not unasked else FAILED


def _show(rows: Sequence[LostFile], unasked: Mapping[str, str]) -> None:
    if rows:
        lines = render(_COLUMNS, [_cells(row) for row in rows], Layout(has_color=uses_color()))
        for line in lines:
            say_styled(line)
    elif not unasked:
        remark("nothing is lost")
    for node, why in unasked.items():
        complain(f"node '{node}' could not be asked: {why}")


def _cells(row: LostFile) -> list[str]:
    what = f"job {row.job}" if row.job is not None else row.file
    remark_text = row.failure if row.failure is not None else row.why
    if row.is_done:
        remark_text = f"fetched; {remark_text}" if remark_text else "fetched"
    elif not row.becomes and row.failure is None:
        remark_text = "no node that was asked has it"
    return [what, ", ".join(row.nodes) or "-", ", ".join(row.known_by) or "-", row.becomes or "-", remark_text]
