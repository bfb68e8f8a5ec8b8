"""Which jobs a verb acts on, or follows."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import click

from cli.choosing.filtering import complete_filter, warn_of_stars
from cli.choosing.jobids import JOB_IDS, PREVIOUS, all_ids, batch_option, ids_of
from cli.connection import open_luxid, submitter_name
from cli.options import F, complete_job, gathered, with_options
from cli.query import PENDING, filter_jobs
from common.errors import PrerequisiteError
from common.queue.jobs import FINAL_NAMES
from common.words.filters.filtertext import Expression
from common.words.filters.jobfilter import all_of, ids_filter, is_filter, job_filter, statuses_filter
from common.words.instants import Toward, parse_instant

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The jobs that a verb acts on: ids, or conditions given as options or as a text; the same for all verbs.
#
# Source: cli.md 1.4 and 2.


# --option -> the states it selects, and its help
_STATES: Final = {
    "--pending": (PENDING, "Jobs that have not begun."),
    "--queued": (("queued",), "Jobs that wait for a place."),
    "--waiting": (("waiting",), "Jobs that wait for locks or other jobs."),
    "--running": (("running",), "Jobs that run."),
    "--failed": (("error",), "Jobs that failed; also --error."),
    "--finished": (FINAL_NAMES, "Jobs that have ended."),
}


@attrs.frozen
class JobChoice:
    """What the user chose; without any choice: all jobs that are not archived."""

    job_ids: tuple[int, ...]
    conditions: tuple[Expression, ...]
    # states selected by an option; empty: no such option was given
    statuses: tuple[str, ...]
    with_archived: bool

    @property
    def is_plain(self) -> bool:
        """Whether the choice has only ids, or nothing at all, so that no condition must be evaluated."""
        return not (self.conditions or self.statuses or self.with_archived)

    @property
    def has_only_ids(self) -> bool:
        """Whether it names jobs, with no condition on them; a job in the archive is found by its id, too."""
        return bool(self.job_ids) and not (self.conditions or self.statuses)

    def expression(self, besides: Expression | None = None) -> Expression:
        """All conditions joined, and `besides` with them."""
        parts = list(self.conditions)
        if self.job_ids:
            parts.append(ids_filter(self.job_ids))
        if self.statuses:
            parts.append(statuses_filter(self.statuses))
        if besides is not None:
            parts.append(besides)
        # an `&` without parts is always true
        return all_of(parts) or ["&"]


def where_option(text: str) -> Callable[[F], F]:
    """`--where FILTER`. Args: text: its help."""
    return click.option("--where", metavar="FILTER", help=text, shell_complete=complete_filter)


def _state_option(name: str, states: Sequence[str], text: str) -> Callable[[F], F]:
    names = (name, "--error") if name == "--failed" else (name,)
    return click.option(*names, "states", flag_value=",".join(states), help=text)


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return complete_job(ctx, param, incomplete) or complete_filter(ctx, param, incomplete)


def _read_choice(
    words: Sequence[str],
    is_filtering: bool,
    where: str | None,
    states: str | None,
    is_mine: bool,
    with_archived: bool,
    batches: Sequence[str],
) -> JobChoice:
    """Raises: InvalidRequest: a filter cannot be read. UsageError: an argument is neither id nor filter."""
    conditions = [] if where is None else [read_job_filter(where)]
    if is_filtering and len(words) != 1:
        raise click.UsageError(f"--filter takes one argument, got {len(words)}; put the filter into quotes")
    if len(words) == 1 and (is_filtering or is_filter(words[0])):
        conditions.append(read_job_filter(words[0]))
        words = ()
    if is_mine:
        conditions.append(["==", "user", submitter_name()])
    if batches:
        conditions.append(_of_batches(batches))
    ids = all_ids(JOB_IDS.convert(word, None, click.get_current_context()) for word in words)
    return JobChoice(ids, tuple(conditions), tuple(states.split(",")) if states else (), with_archived)


# ids or one filter as arguments; `--where`, `--mine`, `--batch`, `--archived` and an option for each state: a verb gets
# its `choice`
choice_options: Final = gathered(
    "choice",
    _read_choice,
    click.option("-F", "--filter", "is_filtering", is_flag=True, help="Take the argument as a filter."),
    where_option("Only jobs that match: 'status=running & label.team=web', 'received < 2h ago'."),
    *(_state_option(name, states, text) for name, (states, text) in _STATES.items()),
    click.option("--mine", "is_mine", is_flag=True, help="Only jobs that this user submitted."),
    batch_option,
    click.option("--archived", "with_archived", is_flag=True, help="Archived jobs, too."),
    click.argument("words", metavar="[ID...|FILTER]", nargs=-1, shell_complete=_complete),
)


def read_job_filter(text: str) -> Expression:
    """The condition of a filter of jobs, with a warning if it compares with what looks like a pattern.

    Raises: InvalidRequest: the filter cannot be read.
    """
    condition = job_filter(text, time.time(), None)
    warn_of_stars(text)
    return condition


def within(choice: JobChoice, since: str | None, until: str | None) -> JobChoice:
    """The choice of those jobs that were submitted in this time. Raises: InvalidRequest: a text is no instant."""
    bounds = [(order, text) for order, text in ((">=", since), ("<", until)) if text is not None]
    conditions: list[Expression] = [
        [order, "received_ts", round(parse_instant(text, time.time(), None, Toward.PAST))] for order, text in bounds
    ]
    return attrs.evolve(choice, conditions=(*choice.conditions, *conditions))


def _of_batches(names: Sequence[str]) -> Expression:
    """Raises: PrerequisiteError: PREV means nothing."""
    parts: list[Expression] = [
        ids_filter(ids_of(name)) if name == PREVIOUS else ["==", "batch", name] for name in names
    ]
    return parts[0] if len(parts) == 1 else ["|", *parts]


# Jobs that a verb follows: by their ids, by a batch, or those for which a filter holds when it begins.


def naming_options(function: F) -> F:
    """`--where` and `--batch`, beside ids."""
    return with_options(
        function,
        where_option("Jobs that match now: 'user=ada & status=running', 'label.team=web'."),
        batch_option,
    )


def named_jobs(job_ids: Sequence[int], where: str | None, batches: Sequence[str]) -> Sequence[int]:
    """Return the jobs: the ids as given, then those of batches, then those of the filter.

    Raises: UsageError: no job is named. InvalidRequest: the filter cannot be read.
        PrerequisiteError: the filter holds for none, or there is no such batch. Else as `Luxid.call`.
    """
    if where is None and not job_ids and not batches:
        raise click.UsageError("name jobs by their ids, by --batch ID, or by --where FILTER")
    if batches:
        # imported late: few commands name one
        from cli.choosing.batches import batch_ids

        job_ids = [*job_ids, *(job_id for batch in batches for job_id in batch_ids(batch))]
    if where is None:
        return tuple(dict.fromkeys(job_ids))
    condition = read_job_filter(where)
    with open_luxid() as client:
        rows = filter_jobs(client, condition, ("id",))
    found = tuple(dict.fromkeys([*job_ids, *(row["id"] for row in rows)]))
    if not found:
        raise PrerequisiteError(f"no job matches '{where}'; archived ones are found by their ids", "unknown_entity")
    return found
