"""The verbs of `gnt-filter` that change rules."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import click
import orjson

from cli.choosing.filtering import warn_of_stars
from cli.commands import Command
from cli.connection import ask_luxid, open_luxid
from cli.context import command_line, program, wants_json
from cli.exitcodes import DONE, FAILED
from cli.filter.list import DIFFERENCES, find_rules, is_uuid, rules_in_order
from cli.options import F, ReadType, complete_rule, gathered, with_options
from cli.query import query_jobs
from cli.screen import complain, remark, say, say_json, say_result
from cli.tables import JOB_FIELDS, job_table
from common.errors import RemoteError
from common.jsontext import read_json
from common.objects.filter import Action, ActionKind, FilterRule, asked_rule
from common.queue.reasons import ReasonEntry
from common.words.filters.rulefilter import Predicate, action_text, rule_predicates
from protocol.luxi.queue import DeleteFilter, ReplaceFilter, TryFilterRule

# Set a filter rule: the common options, the call, and its report.
#
# Source: cli.md 3; luxid.md 2.2, 6.


# predicate: the job was submitted after the rule was made
NEWER: Final = ["jobid", [">", "id", "watermark"]]


# what becomes of a job to which the rule applies
_EFFECTS: Final = {
    ActionKind.ACCEPT: "be let through",
    ActionKind.PAUSE: "wait",
    ActionKind.REJECT: "be canceled",
    ActionKind.CONTINUE: "be looked at by the next rule",
}


@attrs.frozen
class RuleTerms:
    """What every rule has beside its action."""

    where: str | None
    priority: int
    reason: str | None
    is_dry: bool


def rule_options(*, priority: int = 0) -> Callable[[F], F]:
    """`--where`, `--priority`, `--reason` and `--dry-run`: the verb gets its `terms`.

    Args: priority: the place if none is named.
    """
    place = f"Its place; smaller is asked first ({priority}). 'gnt-filter list --help' tells the order of equal ones."
    return gathered(
        "terms",
        RuleTerms,
        click.option("--where", metavar="FILTER", help="Only for such jobs: 'op=OP_RUN_COMMAND & reason=~upgrade'."),
        click.option("--priority", type=click.IntRange(min=0), default=priority, help=place),
        click.option("--reason", metavar="TEXT", help="The reason, shown to users who ask why a job waits."),
        click.option("--dry-run", "is_dry", is_flag=True, help="Only show which queued jobs it would match."),
    )


def predicates_of(where: str | None) -> list[Predicate]:
    """Raises: InvalidRequest: the filter cannot be read."""
    if where is None:
        return []
    predicates = rule_predicates(where)
    warn_of_stars(where)
    return predicates


def set_rule(action: Action, terms: RuleTerms, predicates: Iterable[object] = (), *, uuid: str | None = None) -> int:
    """Set the rule and print its uuid, or show for which jobs it would hold; return the exit code.

    Args:
        predicates: those beside the filter.
        uuid: that of the rule to replace; None: create a new one.
    Raises: InvalidRequest: a predicate is malformed.
    """
    trail = [ReasonEntry("gnt:user", terms.reason, time.time_ns())] if terms.reason else []
    every = (*predicates, *predicates_of(terms.where))
    rule = asked_rule(action, every, priority=terms.priority, reason_trail=trail, uuid=uuid)
    if terms.is_dry:
        _tell_touched(rule)
        return DONE
    uuid_now = ask_luxid(ReplaceFilter.of(rule))
    say_result(uuid_now, uuid_now)
    if uuid is None and sys.stdout.isatty() and sys.stderr.isatty():
        remark(f"take it back with: {command_line(program(), 'delete', uuid_now)}")
    return DONE


def _tell_touched(rule: FilterRule) -> None:
    with open_luxid() as client:
        job_ids = client.call(TryFilterRule.of(rule))
        if wants_json():
            say_json(job_ids)
            return
        rows = query_jobs(client, job_ids, JOB_FIELDS) if job_ids else []
    for line in job_table(row for row in rows if row["status"]):
        say(line)
    count = f"{len(job_ids)} of the jobs that wait now" if len(job_ids) != 1 else "one of the jobs that wait now"
    limit = rule.action.limit
    effect = _EFFECTS[rule.action.kind] if limit is None else f"run {limit} at a time"
    remark(f"{count} would {effect}; nothing was changed")


# `gnt-filter pause`, `drain` and `soft-drain`: make jobs wait, refuse new ones, or take them and make them wait.
#
# Source: filters design, "Examples"; luxid.md 6.2.


@click.command(
    "pause",
    cls=Command,
    examples=(
        "gnt-filter pause --where 'op=OP_RUN_COMMAND & reason=~upgrade' --reason 'the mirror is down'",
        "gnt-filter pause --where 'id > 27491' --dry-run",
    ),
    help=f"""Make jobs wait until the rule is deleted: those for which the filter is true, or all; print the
    rule's uuid.

    A filter compares op, id, name, label.KEY, reason (a text in the reason trail), source, and the opcode's parameters
    by their names; the parameter 'name' only by 'gnt-filter add --predicates'. = compares whole values, =* matches a
    pattern: name =* 'backup-*'.

    {DIFFERENCES}
    """,
)
@rule_options()
def pause(terms: RuleTerms) -> int:
    return set_rule(Action(ActionKind.PAUSE), terms)


@click.command(
    "drain",
    cls=Command,
    examples=("gnt-filter drain --reason 'maintenance at noon'",),
    help=f"Refuse jobs submitted from now on; those in the queue go on. Prints the rule's uuid.\n\n{DIFFERENCES}",
)
@rule_options()
def drain(terms: RuleTerms) -> int:
    return set_rule(Action(ActionKind.REJECT), terms, (NEWER,))


@click.command(
    "soft-drain",
    cls=Command,
    examples=("gnt-filter soft-drain --reason 'maintenance at noon'",),
    help="Accept jobs from now on, but make them wait; those in the queue go on. Prints the rule's uuid.\n\n"
    f"{DIFFERENCES}",
)
@rule_options()
def soft_drain(terms: RuleTerms) -> int:
    return set_rule(Action(ActionKind.PAUSE), terms, (NEWER,))


# `gnt-filter limit`: limit how many jobs run at once.
#
# Source: filters design, "Examples"; luxid.md 6.2.


_COUNT_DIGITS: Final = 9
# behind rules that pause or refuse: the first rule that fits decides, and a limit that others follow would undo them
_PLACE: Final = 10


def _count(text: str) -> int:
    # a longer count would limit nothing
    if not (text.isascii() and text.isdigit() and len(text) <= _COUNT_DIGITS and int(text) > 0):
        raise ValueError(f"'{text}' is not a number of jobs; N is a whole number of at least 1")
    return int(text)


@click.command("limit", cls=Command, examples=("gnt-filter limit 2 --where 'op=OP_RUN_COMMAND & reason=backup'",))
@rule_options(priority=_PLACE)
@click.argument("count", metavar="N", type=ReadType(_count, name="count"))
def limit(count: int, terms: RuleTerms) -> int:
    """Let at most N jobs of this rule run at once; print its uuid.

    The first rule that fits a job decides, so a limit stands behind the rules that pause or refuse, unless --priority
    says otherwise.
    """
    return set_rule(Action(ActionKind.RATE_LIMIT, count), terms)


# The options of `gnt-filter add` and `replace`: a rule in its wire form, with predicates and action.
#
# Source: cli.md 3, "add", "replace".


_RATE_LIMIT: Final = re.compile(r"RATE_LIMIT\s+0*([1-9][0-9]{0,8})")
_WORDS: Final = ("ACCEPT", "PAUSE", "REJECT", "CONTINUE")


def _predicates(text: str) -> list[object]:
    """A JSON list of `[name, expression]`."""
    try:
        predicates = read_json(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"'{text}' is not JSON: {error}") from error
    if not isinstance(predicates, list):
        raise ValueError(f'\'{text}\' is not a list; write [["jobid", [">", "id", 12]]]')
    return predicates


def _action(text: str) -> Action:
    """The action of a rule: its word, or `RATE_LIMIT N`."""
    if text in _WORDS:
        return Action.from_wire(text)
    match = _RATE_LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an action; write {', '.join(_WORDS)} or 'RATE_LIMIT N', N at least 1")
    return Action(ActionKind.RATE_LIMIT, int(match[1]))


def wire_options(function: F) -> F:
    """`--predicates`, `--action`, and the options of every rule."""
    return with_options(
        function,
        click.option(
            "--predicates",
            type=ReadType(_predicates, name="json"),
            default="[]",
            help="All must hold; none if left out.",
        ),
        click.option(
            "--action",
            type=ReadType(_action, name="action"),
            metavar="ACTION",
            default="CONTINUE",
            help="ACCEPT, PAUSE, REJECT, CONTINUE (default) or 'RATE_LIMIT N'.",
        ),
        rule_options(),
    )


# `gnt-filter add`: a new rule, as predicates and action.


@click.command(
    "add",
    cls=Command,
    examples=("""gnt-filter add --action PAUSE --predicates '[["opcode", ["=~", "OP_ID", "^OP_NODE_"]]]'""",),
)
@wire_options
def add(action: Action, predicates: Sequence[object], terms: RuleTerms) -> int:
    """Add a rule, and print its uuid."""
    return set_rule(action, terms, predicates)


# `gnt-filter replace`: put another rule in the place of one.


@click.command(
    "replace", cls=Command, examples=("gnt-filter replace --action ACCEPT 7f4b2cb5-5b4c-4ba0-9ba3-4e1c4c0a9a2b",)
)
@wire_options
@click.argument("uuid")
def replace(uuid: str, action: Action, predicates: Sequence[object], terms: RuleTerms) -> int:
    """Replace the rule with this UUID by another one, or create it; print the uuid."""
    return set_rule(action, terms, predicates, uuid=uuid)


# `gnt-filter delete`: delete rules.
#
# Source: cli.md 3, "delete".


@click.command("delete", cls=Command, examples=("gnt-filter delete 7f4b", "gnt-filter delete 1 3"))
@click.argument("names", metavar="RULE...", nargs=-1, required=True, shell_complete=complete_rule)
def delete(names: Sequence[str]) -> int:
    """Delete these rules; jobs that waited because of them may run.

    A rule is named by its UUID, by a beginning of it that no other rule has, or by its number in gnt-filter list.
    """
    rules = [] if all(map(is_uuid, names)) else rules_in_order()
    uuids = [name for name in names if is_uuid(name)]
    # all names are understood before the first rule goes: numbers change then
    short, is_lost = find_rules(rules, [name for name in names if not is_uuid(name)])
    deleted = []
    with open_luxid() as client:
        for uuid in dict.fromkeys([*uuids, *short]):
            try:
                client.call(DeleteFilter(uuid))
                deleted.append(uuid)
            except RemoteError as error:
                is_lost = True
                complain(error.message)
    if wants_json():
        say_json(deleted)
    else:
        for rule in rules:
            if rule["uuid"] in short and rule["uuid"] in deleted:
                say(f"deleted rule {rule['uuid']}: {action_text(rule['action'])}")
    return FAILED if is_lost else DONE
