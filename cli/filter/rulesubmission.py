"""Set a filter rule: the common options, the call, and its report.

Source: cli.md 3; luxid.md 2.2, 6.
"""

import sys
import time
from typing import Final

import attrs
import click

from cli.choosing.filterwarnings import warn_of_stars
from cli.connection import ask_luxid, open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE
from cli.options import F, with_options
from cli.query import query_jobs
from cli.screen import remark, say, say_json
from cli.tables import JOB_FIELDS, job_table
from common.words.filters.rulefilter import Predicate, rule_predicates
from protocol.luxi.filters import ReplaceFilter, TryFilterRule

# predicate: the job was submitted after the rule was made
NEWER: Final = ["jobid", [">", "id", "watermark"]]


@attrs.frozen
class RuleWish:
    """A rule as the user wants it."""

    # uuid of the rule to replace; None: create a new one
    uuid: str | None
    predicates: tuple[object, ...]
    # action as on the wire
    action: object
    # verb for what the rule makes a job do: "wait"
    effect: str
    # place in the chain; the smallest is evaluated first
    priority: int
    reason: str | None


def rule_options(function: F, *, priority: int = 0) -> F:
    """`--where`, `--priority`, `--reason` and `--dry-run`.

    Args: priority: the place if none is named.
    """
    place = f"Its place; smaller is asked first ({priority}). 'gnt-filter list --help' tells the order of equal ones."
    return with_options(
        function,
        click.option("--where", metavar="FILTER", help="Only for such jobs: 'op=OP_RUN_COMMAND & reason=~upgrade'."),
        click.option("--priority", type=click.IntRange(min=0), default=priority, help=place),
        click.option("--reason", metavar="TEXT", help="The reason, shown to users who ask why a job waits."),
        click.option("--dry-run", "is_dry", is_flag=True, help="Only say which queued jobs it would be for."),
    )


def predicates_of(where: str | None) -> list[Predicate]:
    """Raises: InvalidRequest: the filter cannot be read."""
    if where is None:
        return []
    predicates = rule_predicates(where)
    warn_of_stars(where)
    return predicates


def set_rule(wish: RuleWish, *, is_dry: bool) -> int:
    """Set the rule and print its uuid, or show for which jobs it would hold; return the exit code."""
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


def set_new_rule(
    action: object, effect: str, where: str | None, priority: int, reason: str | None, is_dry: bool, *predicates: object
) -> int:
    """Set a rule for the jobs of a filter; return the exit code.

    Args:
        effect: verb for what the rule makes a job do: "wait".
        predicates: further predicates beside the filter.
    """
    wish = RuleWish(None, (*predicates, *predicates_of(where)), action, effect, priority, reason)
    return set_rule(wish, is_dry=is_dry)


def _tell_touched(wish: RuleWish) -> None:
    with open_luxid() as client:
        job_ids = client.call(TryFilterRule(wish.uuid, wish.priority, wish.predicates, wish.action))
        if wants_json():
            say_json(job_ids)
            return
        rows = query_jobs(client, job_ids, JOB_FIELDS) if job_ids else []
    for line in job_table(row for row in rows if row["status"]):
        say(line)
    count = f"{len(job_ids)} of the jobs that wait now" if len(job_ids) != 1 else "one of the jobs that wait now"
    remark(f"{count} would {wish.effect}; nothing was changed")
