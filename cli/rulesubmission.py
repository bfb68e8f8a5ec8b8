"""Setting a filter rule: the common options, the call, and what is told of it.

Source: cli.md 3; luxid.md 2.2, 6.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import attrs
import click

from cli.connection import ask_luxid, open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE
from cli.query import PENDING, filter_jobs
from cli.screen import remark, say, say_json
from cli.tables import Column, Layout, render
from common.words.jobfilter import statuses_filter
from common.words.rulefilter import Predicate, rule_predicates
from protocol.blocking import BlockingClient
from protocol.luxi.filters import ReplaceFilter
from protocol.luxi.queries import QueryFilters

F = TypeVar("F", bound=Callable[..., Any])

RULE_FIELDS: Final = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")
_JOB_FIELDS: Final = ("id", "status", "ops", "summary")
_COLUMNS: Final = (Column("ID", is_number=True), Column("STATUS"), Column("SUMMARY"))
# of a rule that is not yet there
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"


@attrs.frozen
class RuleWish:
    """A rule as the user wants it."""

    # None: a new one
    uuid: str | None
    predicates: tuple[Any, ...]
    # on the wire
    action: Any
    # what becomes of a job: "wait"
    effect: str
    # smaller comes first
    priority: int
    reason: str | None


def rule_options(function: F) -> F:
    """`--where`, `--priority`, `--reason` and `--dry-run`."""
    options = (
        click.option("--where", metavar="FILTER", help="Only for such jobs: 'op=OP_RUN_COMMAND & reason=~upgrade'."),
        click.option("--priority", type=click.IntRange(min=0), default=0, help="Its place; smaller is asked first."),
        click.option("--reason", metavar="TEXT", help="Why; whoever asks why a job waits is told."),
        click.option("--dry-run", "is_dry", is_flag=True, help="Only say which queued jobs it would be for."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def predicates_of(where: str | None) -> list[Predicate]:
    """Raises: InvalidRequest: the filter cannot be read."""
    return [] if where is None else rule_predicates(where)


def set_rule(wish: RuleWish, *, is_dry: bool) -> int:
    """Set the rule and print its uuid, or tell for which jobs it would be; the exit code."""
    if is_dry:
        _tell_touched(wish)
        return DONE
    trail = (("gnt:user", wish.reason, time.time_ns()),) if wish.reason else ()
    uuid = ask_luxid(ReplaceFilter(wish.uuid, wish.priority, wish.predicates, wish.action, trail))
    if wants_json():
        say_json(uuid)
    else:
        say(uuid)
    if wish.uuid is None and sys.stdout.isatty() and sys.stderr.isatty():
        remark(f"take it back with: {command_line(program(), 'delete', uuid)}")
    return DONE


def _tell_touched(wish: RuleWish) -> None:
    with open_luxid() as client:
        rows = _touched(client, wish)
    if wants_json():
        say_json([row["id"] for row in rows])
        return
    cells = [[str(row["id"]), row["status"], ",".join(row["summary"] or ())] for row in rows]
    for line in render(_COLUMNS, cells, Layout()):
        say(line)
    count = f"{len(rows)} of the jobs that wait now" if len(rows) != 1 else "one of the jobs that wait now"
    remark(f"{count} would {wish.effect}; nothing was changed")


def _touched(client: BlockingClient, wish: RuleWish) -> Sequence[Any]:
    """The waiting jobs to which the rule would apply, given the other rules there are."""
    # imported late: they bring all opcodes with them
    from common.ids import JobId
    from common.objects.filter import FilterRule
    from common.queue.filters import compile_chain
    from common.queue.jobs import Job, JobOp

    rows = filter_jobs(client, statuses_filter(PENDING), _JOB_FIELDS)
    others = [dict(zip(RULE_FIELDS, rule, strict=True)) for rule in client.call(QueryFilters(None, RULE_FIELDS))]
    new = {
        "uuid": wish.uuid or _NO_UUID,
        "watermark": max((row["id"] for row in rows), default=0),
        "priority": wish.priority,
        "predicates": wish.predicates,
        "action": wish.action,
    }
    kept = [rule for rule in others if rule["uuid"] != new["uuid"]]
    chain = compile_chain(
        FilterRule(**{**rule, "predicates": tuple(rule["predicates"]), "reason_trail": ()}) for rule in (*kept, new)
    )

    def is_touched(row: Any) -> bool:
        ops = tuple(JobOp(input=op, priority=0, extra={}) for op in row["ops"])
        rule = chain.applying(Job(job_id=JobId(row["id"]), ops=ops))
        return rule is not None and rule.rule.uuid == new["uuid"]

    return [row for row in rows if is_touched(row)]
