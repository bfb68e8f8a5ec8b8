"""Jobs as the user names them, the same for all verbs: `7`, `7,8`, `2-5`, `2-5,9`, and PREV, the last submission."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from cli.choosing.filtering import complete_batch
from cli.options import F, ReadType

if TYPE_CHECKING:
    # what completes a word imports it; the start of every other command does without
    from click.shell_completion import CompletionItem

# the jobs of the last submission of this session
PREVIOUS: Final = "PREV"
# ids that one word names
_MOST: Final = 100_000
_ID_MAX: Final = 2**63 - 1
_SHOWN: Final = 38
_PART: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_LIST: Final = re.compile(rf"{_PART.pattern}(?:,{_PART.pattern})*", re.ASCII)

# ids, or PREV: its jobs are known when the options of the command are, which name the cluster
Named = tuple[int, ...] | str


class JobIdsType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`7`, `7,8`, `2-5`: ids; PREV as it is."""

    name = "ids"

    def convert(self, value: str | Named, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        if isinstance(value, tuple) or value == PREVIOUS:
            return value
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        if not are_ids(value):
            self.fail(
                f"'{shown}' is not a job id; write one such as 7, several as 7,8 or 2-5, or {PREVIOUS}; "
                "'gnt-job list' shows them",
                param,
                ctx,
            )
        ids: dict[int, None] = {}
        for first, last in _PART.findall(value):
            span = range(int(first), int(last or first) + 1)
            if not span:
                self.fail(f"'{first}-{last}' names no job; write the smaller id first: {last}-{first}", param, ctx)
            if span[-1] > _ID_MAX:
                self.fail(f"'{shown}' is not a job id; the largest is {_ID_MAX}", param, ctx)
            if len(ids) + span[-1] - span[0] >= _MOST:
                self.fail(f"'{shown}' names more than {_MOST:,} jobs; write fewer, or use --where", param, ctx)
            ids.update(dict.fromkeys(span))
        return tuple(ids)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"ID|{PREVIOUS}"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from cli.completion import complete_job_ids

        # no command runs while the shell asks, so its context is not yet the current one
        with ctx.scope(cleanup=False):
            return complete_job_ids(incomplete)


JOB_IDS: Final = JobIdsType()


def are_ids(text: str) -> bool:
    """Whether a word is made of ids, and is no name."""
    return _LIST.fullmatch(text) is not None


def ids_of(named: Named, key: str | None = None) -> tuple[int, ...]:
    """The ids of what one word names.

    Args: key: the key of the submission that names them; None: none.
    Raises: PrerequisiteError: PREV names no job.
    """
    if isinstance(named, tuple):
        return named
    # imported late: few commands name it
    from cli.choosing.lastsubmission import previous_ids

    return previous_ids(key)


def all_ids(words: Iterable[Named]) -> tuple[int, ...]:
    """The ids of all words, each once, as they are named. Raises: PrerequisiteError: PREV names no job."""
    return tuple(dict.fromkeys(job_id for named in words for job_id in ids_of(named)))


def ids_argument(*, is_required: bool) -> Callable[[F], F]:
    """The argument `job_ids` of a verb, which gets the ids, each once."""

    def add(function: F) -> F:
        @functools.wraps(function)
        def with_ids(*, job_ids: Iterable[Named], **options: object) -> object:
            return function(job_ids=all_ids(job_ids), **options)

        metavar = "ID..." if is_required else "[ID]..."
        named = click.argument("job_ids", metavar=metavar, nargs=-1, required=is_required, type=JOB_IDS)
        return named(with_ids)  # type: ignore[return-value]  # it is called with options by name only

    return add


# Batches as the user names them: by their id, or by PREV, the last submission of this session.
#
# Source: DESIGN section 16.


_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


def _batch(text: str) -> str:
    if _ID.fullmatch(text) is None:
        raise ValueError(f"'{text:.40}' is no batch; 'gnt-job batch list' shows all")
    return text


BATCH: Final = ReadType(_batch, "ID|PREV")


def batch_option(function: F) -> F:
    """`--batch`, beside ids and conditions."""
    return click.option(
        "--batch",
        "batches",
        type=BATCH,
        multiple=True,
        shell_complete=complete_batch,
        help="The jobs of this batch; PREV is the last submission.",
    )(function)
