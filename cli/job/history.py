"""`gnt-job history`: what ran, and sums over it.

Source: DESIGN section 16; everyday.md section g.
"""

from typing import Final, Unpack

import attrs
import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.luxid import Luxid
from cli.options import table_options
from cli.paging import show_lines
from cli.past.localzone import local_zone
from cli.past.pastchoice import SORTINGS, PastOptions, grouping_of, past_options, read_choice
from cli.past.pasttables import job_json, job_lines, sum_lines
from cli.past.pasttries import tries_of_jobs, try_lines
from cli.screen import remark, say_json, screen_width
from cli.tables import Layout
from protocol.luxi.history import EndedJob, Past, ReadHistory, Sorting, SummarizeHistory

# jobs of one reply
_AT_ONCE: Final = 5000


@click.command(
    "history",
    cls=Command,
    examples=(
        "gnt-job history --since yesterday --status error",
        "gnt-job history --name 'backup-*' --sort wait --limit 10",
        "gnt-job history --filter 'label.team=web & run > 10m & end > monday'",
        "gnt-job history --since '7 days ago' --summary --by day",
        "gnt-job history --output json --limit 0 | jq '.[] | select(.tries > 1).id'",
    ),
)
@past_options
@click.option("--sort", default=Sorting.END.value, type=click.Choice(SORTINGS), help="By what; the largest first.")
@click.option("--reverse", is_flag=True, help="The smallest first.")
@click.option("--limit", default=20, type=click.IntRange(min=0), help="At most so many, 20 by default; 0: all.")
@click.option("--tries", "with_tries", is_flag=True, help="Show each try of jobs that were tried again.")
@click.option("--summary", is_flag=True, help="Sum up: how many, how many failed, how long they waited and ran.")
@click.option("--by", default="name", help="What is summed up: name, user, status, day or label:KEY.")
@click.option("--zone", help="Time zone by which days are told, such as Europe/Athens; this machine's by default.")
@table_options
def history(
    sort: str,
    reverse: bool,
    limit: int,
    with_tries: bool,
    summary: bool,
    by: str,
    zone: str | None,
    no_headers: bool,
    separator: str | None,
    **chosen: Unpack[PastOptions],
) -> int:
    """Show the jobs that have ended, archived and removed ones too, the latest first.

    WAIT is the time from which a job could have begun until it began: since its submission, its --begin and the end
    of the jobs that it depends on. RUN is the time in which it did something, over all tries. A filter compares
    id, status, name, summary, user, received, eligible, start, end, wait, run, tries, exit, why, node, batch and
    label.KEY.
    """
    choice, layout = read_choice(chosen), Layout(not no_headers, separator, uses_color())
    if layout.is_for_people:
        layout = attrs.evolve(layout, width=screen_width())
    if summary:
        return _sum_up(choice, by, zone or local_zone(), limit, layout)
    with open_luxid() as client:
        call = ReadHistory(choice, Sorting(sort), reverse, min(limit or _AT_ONCE, _AT_ONCE))
        jobs = _read(client, call, limit)
        tries = tries_of_jobs(client, jobs) if with_tries else {}
    if wants_json():
        say_json([{**job_json(job), **({"all_tries": tries.get(job.id, [])} if with_tries else {})} for job in jobs])
        return DONE
    lines = job_lines(jobs, layout)
    show_lines(lines if not with_tries else try_lines(lines, jobs, tries, layout))
    return DONE


def _read(client: Luxid, call: ReadHistory, limit: int) -> list[EndedJob]:
    """Page by page; what is not shown is told."""
    jobs: list[EndedJob] = []
    while True:
        reply = client.call(attrs.evolve(call, offset=len(jobs), limit=_page(call, limit, len(jobs))))
        jobs += reply.jobs
        if not reply.jobs or len(jobs) >= min(limit or reply.total, reply.total):
            break
    _remark(len(jobs), reply.total, reply.unread)
    return jobs


def _page(call: ReadHistory, limit: int, have: int) -> int:
    return min(call.limit, limit - have) if limit else call.limit


def _remark(shown: int, total: int, unread: int) -> None:
    if shown < total:
        remark(f"… {total - shown} more; --limit {total} shows all, --since or --where fewer")
    if unread:
        which = "one ended job is" if unread == 1 else f"{unread} ended jobs are"
        remark(f"{which} not in the history yet: luxid is reading them")


def _sum_up(choice: Past, by: str, zone: str, limit: int, layout: Layout) -> int:
    grouping, label = grouping_of(by)
    with open_luxid() as client:
        sums = client.call(SummarizeHistory(choice, grouping, label, zone))
    shown = sums[:limit] if limit else sums
    if wants_json():
        say_json(shown)
        return DONE
    show_lines(sum_lines(shown, grouping, label, layout))
    if len(shown) < len(sums):
        remark(f"… {len(sums) - len(shown)} more; --limit 0 shows all")
    return DONE
