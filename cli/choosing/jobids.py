"""Jobs as the user names them, the same for all verbs: `7`, `7,8`, `2-5`, `2-5,9`, and PREV, the last submission."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

import click

from cli.choosing.filtering import complete_batch
from cli.options import F, ReadType, complete_job

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


def _job_ids(text: str) -> Named:
    """`7`, `7,8`, `2-5`: ids; PREV as it is."""
    if text == PREVIOUS:
        return text
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if not are_ids(text):
        raise ValueError(
            f"'{shown}' is not a job id; write one such as 7, several as 7,8 or 2-5, or {PREVIOUS}; "
            "'gnt-job list' shows them"
        )
    ids: dict[int, None] = {}
    for first, last in _PART.findall(text):
        span = range(int(first), int(last or first) + 1)
        if not span:
            raise ValueError(f"'{first}-{last}' names no job; write the smaller id first: {last}-{first}")
        if span[-1] > _ID_MAX:
            raise ValueError(f"'{shown}' is not a job id; the largest is {_ID_MAX}")
        if len(ids) + span[-1] - span[0] >= _MOST:
            raise ValueError(f"'{shown}' names more than {_MOST:,} jobs; write fewer, or use --where")
        ids.update(dict.fromkeys(span))
    return tuple(ids)


JOB_IDS: Final = ReadType(_job_ids, f"ID|{PREVIOUS}", "ids", complete_job)


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
