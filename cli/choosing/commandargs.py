"""Values of a command's options as the user types them: `12:success`, `NAME=VALUE`, `512M`, `nofile=1024`."""

import os
import re
import sys
from typing import Final

import click

from cli.choosing.jobids import JOB_IDS, Named
from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, JobState
from common.system.ulimits import ULIMITS


class DependencyType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`ID` or `ID:status,...`: jobs, and the states that they may end in; success if left out."""

    name = "dependency"

    def convert(
        self, value: str | tuple[Named, list[str]], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Named, list[str]]:
        if isinstance(value, tuple):
            return value
        number, _, names = value.partition(":")
        statuses = [name for name in names.split(",") if name] or [JobState.SUCCESS.value]
        wrong = next((name for name in statuses if name not in FINAL_NAMES), None)
        if wrong is not None:
            self.fail(f"no job ends as '{wrong}'; write {', '.join(sorted(FINAL_NAMES))}", param, ctx)
        return JOB_IDS.convert(number, param, ctx), statuses


class EnvironmentType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`NAME=VALUE`; `NAME` alone takes its value from this environment."""

    name = "variable"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not name:
            self.fail(f"'{value}' names no variable; write NAME=VALUE", param, ctx)
        if not equals and name not in os.environ:
            self.fail(f"'{name}' is not set here; write {name}=VALUE", param, ctx)
        return name, text if equals else os.environ[name]


class SizeType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`512M`: bytes; K, M, G or T multiply by powers of 1024."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value)
        if match is None:
            self.fail(f"'{value}' is not a size; write bytes, or a number with K, M, G or T", param, ctx)
        if "." in match[1] and not match[2]:
            self.fail(f"'{value}' is not whole; write a whole number, or one with K, M, G or T, as in 1.5G", param, ctx)
        return int(float(match[1]) * 1024 ** _UNITS.index(match[2].upper()))


class CpusType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`1.5`: a number of processors; `nan` and `inf` are refused, as JSON does not have them."""

    name = "float"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if _CPUS.fullmatch(value) is None:
            self.fail(f"'{value}' is not a number of processors; write one such as 2 or 0.5", param, ctx)
        return float(value)


class UlimitType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`nofile=1024:4096`: soft and hard limit, or both; `unlimited` for none."""

    name = "limit"

    def convert(
        self, value: str | tuple[str, list[int]], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[int]]:
        if isinstance(value, tuple):
            return value
        name, _, text = value.partition("=")
        numbers = ["-1" if number == "unlimited" else number for number in text.split(":")]
        if name not in ULIMITS:
            self.fail(f"there is no limit '{name}'; they are {', '.join(ULIMITS)}", param, ctx)
        if len(numbers) > 2 or not all(_NUMBER.fullmatch(number) for number in numbers):
            self.fail(f"'{value}' is not a limit; write {name}=SOFT[:HARD], each a number or unlimited", param, ctx)
        return name, [int(number) for number in numbers]


_UNITS: Final = ("", "K", "M", "G", "T")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_CPUS: Final = re.compile(r"\d{1,4}(\.\d{1,6})?|\.\d{1,6}", re.ASCII)
_NUMBER: Final = re.compile(r"-1|\d{1,19}", re.ASCII)
CPUS: Final = CpusType()
DEPENDENCY: Final = DependencyType()
SIZE: Final = SizeType()
ULIMIT: Final = UlimitType()
VARIABLE: Final = EnvironmentType()


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
