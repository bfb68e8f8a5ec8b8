"""`gnt-job history`: what ran, and sums over it.

Source: DESIGN section 16; everyday.md section g.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from cli.choosing.filtering import complete_label, complete_name, complete_user, warn_of_stars
from cli.commands import Command
from cli.connection import Luxid, known_login, open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.options import gathered
from cli.query import query_jobs
from cli.screen import remark, say_json, screen_width
from cli.tables import Column, Layout, render, show_lines, status_style, table_options
from common.errors import InvalidRequest
from common.ids import JobId
from common.printable import printable
from common.queue.jobs import JobOp, JobState
from common.queue.reasons import Try, tries_of
from common.words.filters.filtertext import Expression, glob_regex
from common.words.filters.jobfilter import all_of, past_filter
from common.words.instants import Toward, parse_instant
from common.words.outcome import asker_named
from common.words.times import clock, duration, iso
from protocol.luxi.history import EndedJob, Grouping, Past, PastSum, ReadHistory, Sorting, SummarizeHistory

# The name of this machine's time zone, by which days are told.


_LINK: Final = Path("/etc/localtime")
_ZONES: Final = "zoneinfo/"


def local_zone() -> str:
    """`Europe/Athens`, by $TZ or by the link that says it for the machine; `UTC` if neither names one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = os.readlink(_LINK)
    except OSError:
        return "UTC"
    return target.partition(_ZONES)[2] or "UTC"


# Which ended jobs a verb is about: options, and what they ask of luxid.


# what `--status` takes -> state
_STATUSES: Final = {
    "success": JobState.SUCCESS,
    "error": JobState.ERROR,
    "failed": JobState.ERROR,
    "canceled": JobState.CANCELED,
}
_LABEL: Final = "label:"
SORTINGS: Final = tuple(sorting.value for sorting in Sorting)


def _read_choice(
    since: str | None,
    until: str | None,
    statuses: Sequence[str],
    names: Sequence[str],
    labels: Sequence[str],
    user: str | None,
    text: str | None,
) -> Past:
    """Raises: InvalidRequest: a time or the filter is malformed."""
    now = time.time()
    parts: list[Expression] = []
    if names:
        named: list[Expression] = [["=~", "name", glob_regex(name)] for name in names]
        parts.append(["|", *named])
    parts += [_label(label) for label in labels]
    if user is not None:
        parts.append(["==", "user", user])
    if text is not None:
        parts.append(past_filter(text, now, None))
        warn_of_stars(text)
    return Past(
        since=_instant(since, now),
        until=_instant(until, now),
        states=tuple(dict.fromkeys(_STATUSES[name] for name in statuses)),
        filter=all_of(parts),
    )


# the options that choose ended jobs: the verb gets its `choice`
past_options: Final = gathered(
    "choice",
    _read_choice,
    click.option("--since", metavar="TIME", help="Ended at or after: yesterday, 2h (ago), '2026-11-21 02:00'."),
    click.option("--until", metavar="TIME", help="Ended before."),
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice([*_STATUSES]),
        help="In this final state; repeatable.",
    ),
    click.option(
        "--name",
        "names",
        metavar="GLOB",
        multiple=True,
        shell_complete=complete_name,
        help="With this name, such as 'backup-*'; repeatable.",
    ),
    click.option(
        "--label",
        "labels",
        metavar="KEY[=VALUE]",
        multiple=True,
        shell_complete=complete_label,
        help="With this label; repeatable.",
    ),
    click.option("--user", metavar="LOGIN", shell_complete=complete_user, help="Submitted by this user."),
    click.option(
        "--filter", "--where", "text", metavar="FILTER", help="For which this holds: 'wait > 10m & tries > 1'."
    ),
)


def grouping_of(by: str) -> tuple[Grouping, str]:
    """What `--by` says: a grouping, and the key of a label. Raises: InvalidRequest."""
    if by.startswith(_LABEL):
        return Grouping.LABEL, by.removeprefix(_LABEL)
    try:
        return Grouping(by), ""
    except ValueError:
        known = ", ".join(each.value for each in Grouping if each is not Grouping.LABEL)
        raise InvalidRequest(f"jobs are not summed up by '{by}'; write {known} or label:KEY") from None


def _instant(text: str | None, now: float) -> float | None:
    return None if text is None else parse_instant(text, now, None, Toward.PAST)


def _label(text: str) -> Expression:
    key, equals, value = text.partition("=")
    if not key:
        raise InvalidRequest(f"'{text}' is not a label; write KEY=VALUE, or KEY for any value")
    # any text has a place for the empty pattern
    return ["==", f"label.{key}", value] if equals else ["=~", f"label.{key}", ""]


# Ended jobs and sums over them, as tables and as JSON.


# instants of a job, by their names in JSON
_INSTANTS: Final = ("received", "eligible", "start", "end")
# columns of a terminal below which instants and titles are short
_WIDE: Final = 106
_HEADS: Final = (
    *("COUNT", "FAILED", "CANCELED", "RETRIED"),
    *("MEAN WAIT", "P95 WAIT", "MEAN RUN", "P95 RUN", "MOST RUN"),
)
_SHORT_HEADS: Final = ("JOBS", "FAILED", "CANCELED", "RETRIED", "WAIT", "P95", "RUN", "P95", "MOST")
_COLUMNS: Final = (
    Column("ID", is_number=True),
    Column("STATUS", style=status_style),
    Column("NAME"),
    Column("USER"),
    Column("ENDED", is_whole=True),
    Column("WAIT", is_number=True),
    Column("RUN", is_number=True),
    Column("TRIES", is_number=True),
    Column("WHY"),
)


def job_lines(jobs: Sequence[EndedJob], layout: Layout) -> Iterator[str]:
    """A table of ended jobs."""
    is_short = _is_narrow(layout) and len({_ended(job)[:4] for job in jobs if job.end_at is not None}) == 1
    return render(_COLUMNS, (_job_cells(job, is_short=is_short) for job in jobs), layout)


def job_json(job: EndedJob) -> dict[str, object]:
    """The job in its wire form, all fields, with its instants as ISO texts beside, and users by name as in tables."""
    wire = {**attrs.asdict(job), "status": job.status.value, "why": asker_named(job.why, known_login)}
    times = {name: None if (at := wire[f"{name}_at"]) is None else iso(at) for name in _INSTANTS}
    return {**wire, **times}


def sum_lines(sums: Iterable[PastSum], by: Grouping, label: str, layout: Layout) -> Iterator[str]:
    """A table of sums."""
    title = label.upper() if by is Grouping.LABEL else by.value.upper()
    heads = _SHORT_HEADS if _is_narrow(layout) else _HEADS
    columns = (Column(title), *(Column(head, is_number=True) for head in heads))
    return render(columns, map(_sum_cells, sums), layout)


def _sum_cells(each: PastSum) -> list[str]:
    counts = (each.count, each.failed, each.canceled, each.retried)
    times = (each.mean_wait_s, each.p95_wait_s, each.mean_run_s, each.p95_run_s, each.most_run_s)
    return [each.group, *map(str, counts), *map(_length, times)]


def _is_narrow(layout: Layout) -> bool:
    return layout.width is not None and layout.width < _WIDE


def _ended(job: EndedJob) -> str:
    return "" if job.end_at is None else clock(job.end_at)


def _job_cells(job: EndedJob, *, is_short: bool) -> list[str]:
    """Args: is_short: without the year and the seconds of its end."""
    ended = _ended(job)[5:16] if is_short else _ended(job)
    times = (_length(job.wait_s), _length(job.run_s))
    return [
        str(job.id),
        job.status.value,
        job.name,
        job.user,
        ended,
        *times,
        str(job.tries),
        asker_named(job.why, known_login),
    ]


def _length(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


# Each try of jobs that were tried again, from the jobs' files.


Tries = Mapping[JobId, Sequence[Mapping[str, object]]]


def tries_of_jobs(client: Luxid, jobs: Iterable[EndedJob]) -> Tries:
    """The failed tries of these jobs but the last one, which is the job's own; a removed job has none any more."""
    wanted = [job.id for job in jobs if job.tries > 1]
    rows = query_jobs(client, wanted, ("id", "status", "ops")) if wanted else []
    return {
        JobId(row["id"]): [_as_json(each) for op in row["ops"] for each in tries_of(JobOp(op))]
        for row in rows
        if row["status"] is not None
    }


def try_lines(lines: Iterable[str], jobs: Sequence[EndedJob], tries: Tries, layout: Layout) -> Iterator[str]:
    """The lines of a table, and below each job its tries."""
    left = iter(lines)
    if layout.has_header:
        yield next(left)
    for job, line in zip(jobs, left, strict=True):
        yield line
        for each in tries.get(job.id, ()):
            yield printable(f"    try {each['number']}: {each['text']}")


def _as_json(each: Try) -> dict[str, object]:
    text = f"{clock(each.start_at)}, {duration(each.end_at - each.start_at)}, {each.why}"
    return {
        "number": each.number,
        "start_at": each.start_at,
        "end_at": each.end_at,
        "why": each.why,
        "exit_code": each.exit_code,
        "text": text,
    }


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
@click.option("--sort", default=Sorting.END.value, type=click.Choice(SORTINGS), help="Sort by this, the largest first.")
@click.option("--reverse", is_flag=True, help="Sort the smallest first.")
@click.option("--limit", default=20, type=click.IntRange(min=0), help="Show at most so many, 20 by default; 0: all.")
@click.option("--tries", "with_tries", is_flag=True, help="Show each try of jobs that were tried again.")
@click.option("--summary", is_flag=True, help="Sum up: how many, how many failed, how long they waited and ran.")
@click.option("--by", default="name", help="What is summed up: name, user, status, day or label:KEY.")
@click.option("--zone", help="Time zone by which days are told, such as Europe/Athens; this machine's by default.")
@table_options
def history(
    choice: Past,
    sort: str,
    reverse: bool,
    limit: int,
    with_tries: bool,
    summary: bool,
    by: str,
    zone: str | None,
    layout: Layout,
) -> int:
    """Show the jobs that have ended, archived and removed ones too, the latest first.

    WAIT is the time from which a job could have begun until it began: since its submission, its --begin and the end
    of the jobs that it depends on. RUN is the time in which it did something, over all tries. A filter compares
    id, status, name, summary, user, received, eligible, start, end, wait, run, tries, exit, why, node, batch and
    label.KEY.
    """
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
