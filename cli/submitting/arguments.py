"""Values as the user types them: options of a command, locks, terms of jobs."""

import os
import re
import sys
import time
from collections.abc import Iterable
from typing import Final

import click

from cli.choosing.jobids import JOB_IDS, Named
from cli.options import ReadType, complete_lock
from cli.screen import remark
from common.commands.spec import ULIMITS
from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, JobState
from common.queue.terms import Use, check_label, check_name, read_use
from common.words import typed
from common.words.typed import LockWish, read_lock, read_size

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


def lock_modes(wishes: Iterable[LockWish]) -> dict[str, str]:
    """Lock -> mode. Raises: UsageError: a lock is wanted in two modes."""
    try:
        return typed.lock_modes(wishes)
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
