"""Values as the user types them: options of a command, locks, terms of jobs, and the jobs to wait for."""

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import click

from cli.choosing.jobids import JOB_IDS, PREVIOUS, Named, are_ids, ids_of
from cli.connection import open_luxid
from cli.options import ReadType, complete_lock, gathered
from cli.screen import remark
from common.commands.spec import ULIMITS
from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, JobState
from common.queue.terms import Use, check_label, check_name, read_use
from common.words import typed
from common.words.typed import NamedLock, read_lock, read_size

# Values of a command's options as the user types them: `12:success`, `NAME=VALUE`, `512M`, `nofile=1024`.


def _dependency(text: str) -> tuple[Named, list[str]]:
    """`ID` or `ID:status,...`: jobs, and the states that they may end in; success if left out."""
    number, _, names = text.partition(":")
    statuses = [name for name in names.split(",") if name] or [JobState.SUCCESS.value]
    wrong = next((name for name in statuses if name not in FINAL_NAMES), None)
    if wrong is not None:
        raise ValueError(f"no job ends as '{wrong}'; write {', '.join(sorted(FINAL_NAMES))}")
    return JOB_IDS.convert(number, None, None), statuses


def _variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE`; `NAME` alone takes its value from this environment."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"'{text}' names no variable; write NAME=VALUE")
    if not equals and name not in os.environ:
        raise ValueError(f"'{name}' is not set here; write {name}=VALUE")
    return name, value if equals else os.environ[name]


def _cpus(text: str) -> float:
    """`1.5`: a number of processors; `nan` and `inf` are refused, as JSON does not have them."""
    if _CPUS.fullmatch(text) is None:
        raise ValueError(f"'{text}' is not a number of processors; write one such as 2 or 0.5")
    return float(text)


def _ulimit(text: str) -> tuple[str, list[int]]:
    """`nofile=1024:4096`: soft and hard limit, or both; `unlimited` for none."""
    name, _, limits = text.partition("=")
    numbers = ["-1" if number == "unlimited" else number for number in limits.split(":")]
    if name not in ULIMITS:
        raise ValueError(f"there is no limit '{name}'; they are {', '.join(ULIMITS)}")
    if len(numbers) > 2 or not all(_NUMBER.fullmatch(number) for number in numbers):
        raise ValueError(f"'{text}' is not a limit; write {name}=SOFT[:HARD], each a number or unlimited")
    return name, [int(number) for number in numbers]


_CPUS: Final = re.compile(r"\d{1,4}(\.\d{1,6})?|\.\d{1,6}", re.ASCII)
_NUMBER: Final = re.compile(r"-1|\d{1,19}", re.ASCII)
CPUS: Final = ReadType(_cpus, name="float")
DEPENDENCY: Final = ReadType(_dependency, name="dependency")
SIZE: Final = ReadType(read_size, name="size")
ULIMIT: Final = ReadType(_ulimit, name="limit")
VARIABLE: Final = ReadType(_variable, name="variable")


def check_text(*texts: str) -> None:
    """Raises: click.UsageError: a text is not UTF-8; Python shows such bytes as lone surrogates."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text).decode(errors="backslashreplace")
            raise click.UsageError(
                f"'{shown:.60}' is not UTF-8, and a job is text; name it by a pattern with --shell, or in a script"
            ) from None


def read_standard_input() -> str:
    """Read all of standard input. Raises: InvalidRequest: it is closed, or is not UTF-8."""
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed; name a file, or pipe the text in")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidRequest("standard input is not UTF-8 text; put it into a file, and name that") from None


# `NAME[:shared|exclusive]`; exclusive if left out
LOCK: Final = ReadType(read_lock, name="lock", complete=complete_lock)


def lock_modes(locks: Iterable[NamedLock]) -> dict[str, str]:
    """Lock -> mode. Raises: UsageError: a lock is wanted in two modes."""
    try:
        return typed.lock_modes(locks)
    except InvalidRequest as error:
        raise click.UsageError(f"--lock {error.message}") from None


# Terms of jobs as the user types them: `team=web`, `licences=2`, `web1:memory=4G`, `tomorrow 02:00`.
#
# Source: DESIGN section 16.


# seconds; an instant that is past by less was meant as now
_JUST_NOW_S: Final = 60.0


def _job_name(text: str) -> str:
    check_name(text)
    return text


def _label(text: str) -> tuple[str, str]:
    """`KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"'{text}' is not a label; write KEY=VALUE, as in team=web")
    check_label(key, value)
    return key, value


def _use(text: str) -> Use:
    """`[NODE:]NAME=COUNT`; a count with K, M, G or T is in bytes, `NAME` alone is one unit."""
    key, equals, count_text = text.partition("=")
    count = read_size(count_text) if equals else 1
    if count < 1:
        raise ValueError(f"'{text}' uses nothing; write a count of at least 1")
    return read_use(key, count)


class InstantType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`tomorrow 02:00`: an instant in seconds since the epoch; of one that is past the user is told."""

    name = "time"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        # imported late: few commands name a time
        from common.words.instants import parse_instant
        from common.words.times import clock

        now = time.time()
        try:
            instant = parse_instant(value, now, None)
        except InvalidRequest as error:
            self.fail(error.message, param, ctx)
        if now - instant > _JUST_NOW_S and (ctx is None or not ctx.resilient_parsing):
            # a script that submits once, under a key, may come late: this is no mistake of every caller
            remark(f"'{value}' is past, it was {clock(instant)}: nothing is left to wait for")
        return instant

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "TIME"


JOB_NAME: Final = ReadType(_job_name, "NAME")
LABEL: Final = ReadType(_label, "KEY=VALUE")
USE: Final = ReadType(_use, "[NODE:]NAME=COUNT")


# The jobs that a new job waits for, named by an id, by a batch, or by the word PREV.
#
# Source: DESIGN section 16; everyday.md section d.


_BATCH: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)
_SUCCESS: Final = (JobState.SUCCESS.value,)
_FAILURE: Final = (JobState.ERROR.value,)
_ANY: Final = tuple(sorted(FINAL_NAMES))


def _jobs(text: str) -> Named:
    """Ids, PREV, or the id of a batch."""
    if text == PREVIOUS:
        return text
    if are_ids(text):
        return JOB_IDS.convert(text, None, None)
    if _BATCH.fullmatch(text) is None:
        raise ValueError(f"'{text:.40}' names no job; write an id, the id of a batch, or {PREVIOUS}")
    return text


_JOBS: Final = ReadType(_jobs, "ID|BATCH|PREV")


@attrs.frozen
class AfterJobs:
    """Jobs to wait for, as they are named."""

    depends: Sequence[tuple[Named, list[str]]]
    after_success: Sequence[Named]
    after_failure: Sequence[Named]
    after_all: Sequence[Named]


# `--after`, `--after-success`, `--after-failure` and `--after-all`: a verb gets `after`
after_options: Final = gathered(
    "after",
    AfterJobs,
    click.option(
        "--after",
        "--depend",
        "depends",
        type=DEPENDENCY,
        multiple=True,
        help="Start after job ID has succeeded, or has ended as ID:success|error|canceled,... says; repeatable.",
    ),
    click.option(
        "--after-success",
        type=_JOBS,
        multiple=True,
        help="Start after these jobs have succeeded: a job, a batch, or PREV, the last submission of this "
        "terminal or session ($GANTRY_SESSION names another); repeatable.",
    ),
    click.option(
        "--after-failure",
        type=_JOBS,
        multiple=True,
        metavar="ID|PREV",
        help="Start after this job has failed, not if it was canceled; repeatable.",
    ),
    click.option(
        "--after-all", type=_JOBS, multiple=True, help="Start after these jobs have ended in any way; repeatable."
    ),
)


def read_dependencies(after: AfterJobs, key: str | None) -> list[list[object]]:
    """The dependencies of the first opcode; each job once for each way to wait for it.

    Args: key: key of the submission.
    Raises: PrerequisiteError: PREV or a batch names no job. UsageError: one failure is asked of several jobs.
        Else as `Luxid.call`.
    """
    found: list[list[object]] = [[job_id, states] for named, states in after.depends for job_id in ids_of(named, key)]
    ways = ((after.after_success, _SUCCESS), (after.after_failure, _FAILURE), (after.after_all, _ANY))
    for names, wanted in ways:
        for name in names:
            ids = _ids_of(name, wanted, key)
            if wanted == _FAILURE and len(ids) > 1:
                which = name if isinstance(name, str) else "this list"
                raise click.UsageError(
                    f"--after-failure waits for the failure of one job, and {which} has {len(ids)}; "
                    "name one by its id, or write --after-all"
                )
            found += [[job_id, list(wanted)] for job_id in ids]
    return _unique(found)


def _unique(found: Iterable[list[object]]) -> list[list[object]]:
    return list({str(each): list(each) for each in found}.values())


def _ids_of(name: Named, wanted: Sequence[str], key: str | None) -> Sequence[int]:
    if isinstance(name, tuple) or name == PREVIOUS:
        return ids_of(name, key)
    return _batch_ids(name, wanted)


def _batch_ids(batch_id: str, wanted: Sequence[str]) -> Sequence[int]:
    """The jobs of a batch; those that have ended as wanted are left out, if others are left."""
    from cli.choosing.batches import read_batch

    with open_luxid() as client:
        rows = read_batch(client, batch_id).jobs
    left = [row["id"] for row in rows if row["status"] not in wanted]
    return left or [rows[-1]["id"]]
