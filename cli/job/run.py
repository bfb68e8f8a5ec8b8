"""`gnt-job run`: run a command as a job."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import click

from cli.choosing.lockargs import LOCK, LockWish, lock_modes
from cli.commands import WaitingCommand
from cli.durations import POSITIVE_DURATION
from cli.query import JOB_ID
from cli.remote.remoteoptions import is_remote
from cli.submission import FollowOptions, Wishes, submit_jobs, submit_options, wait_options, with_wishes
from common.errors import InvalidRequest
from common.queue.jobs import FINAL_NAMES, JobState
from common.system.ulimits import ULIMITS


class DependencyType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`ID` or `ID:status,...`: a job, and the states that it may end in; success if left out."""

    name = "dependency"

    def convert(
        self, value: str | list[object], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[object]:
        if isinstance(value, list):
            return value
        number, _, names = value.partition(":")
        statuses = [name for name in names.split(",") if name] or [JobState.SUCCESS.value]
        wrong = next((name for name in statuses if name not in FINAL_NAMES), None)
        if wrong is not None:
            self.fail(f"no job ends as '{wrong}'; write {', '.join(sorted(FINAL_NAMES))}", param, ctx)
        return [JOB_ID.convert(number, param, ctx), statuses]


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


_UNITS = ("", "K", "M", "G", "T")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_CPUS = re.compile(r"\d{1,4}(\.\d{1,6})?|\.\d{1,6}", re.ASCII)
_NUMBER = re.compile(r"-1|\d{1,19}", re.ASCII)
SIZE = SizeType()


def read_standard_input() -> str:
    """Read all of standard input. Raises: InvalidRequest: it is closed, or is not UTF-8."""
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed; name a file, or pipe the text in")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidRequest("standard input is not UTF-8 text; put it into a file, and name that") from None


@click.command(
    "run",
    cls=WaitingCommand,
    context_settings={"allow_interspersed_args": False},
    examples=(
        "gnt-job run --lock node/web1 -- apt-get --yes upgrade",
        "gnt-job run --lock node/web1:shared --lock node/db1 --wait -- rsync -a web1: db1:",
        "gnt-job run --detach -- /etc/init.d/web restart",
        "gnt-job run --after 12 --shell -- 'make test && make deploy'",
        "gnt-job run --after 13:error,canceled -- logger 'the deployment went wrong'",
        "gnt-job run --reason rate-limit:2:backup -- backup web1",
        "gnt-job run --memory 2G --cpus 1.5 --nice 10 -- make -j4",
        "gnt-job run --stdin /srv/dump.sql --stderr apart --wait -- mysql web",
    ),
)
@click.option("--lock", "locks", type=LOCK, multiple=True, help="Hold this lock, NAME[:shared|exclusive]; repeatable.")
@click.option(
    "--after",
    "--depend",
    "depends",
    type=DependencyType(),
    multiple=True,
    help="Start after job ID has succeeded, or has ended as ID:success|error|canceled,... says; repeatable.",
)
@click.option("--timeout", type=POSITIVE_DURATION, help="End the command after this time: 90, 90s, 5m, 2h.")
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run it there; here if left out, with --remote in /.",
)
@click.option(
    "--stdin",
    "stdin_from",
    metavar="FILE|-",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Input of the command: FILE as it is when the command starts, or (-) all of standard input here.",
)
@click.option("--stdin-text", metavar="TEXT", help="Input of the command: this text.")
@click.option(
    "--stderr",
    type=click.Choice(["joined", "apart"]),
    help="Standard error with the output (default), or kept by itself: gnt-job output --stderr.",
)
@click.option("--memory", type=SIZE, help="Memory limit of all its processes together: 512M, 2G.")
@click.option("--cpus", type=CpusType(), help="Limit of processors at once: 2, 0.5.")
@click.option("--nice", type=click.IntRange(-20, 19), help="Niceness, 19 is the lowest priority; below 0 only as root.")
@click.option(
    "--ulimit", "ulimits", type=UlimitType(), multiple=True, help="A limit, NAME=SOFT[:HARD], nofile=4096; repeatable."
)
@click.option("--env", type=EnvironmentType(), multiple=True, help="Set a variable, NAME=VALUE; repeatable.")
@click.option("--shell", is_flag=True, help="Join the words by blanks and give them to /bin/sh.")
@click.option("--user", metavar="NAME", help="Run it as this user; needs daemons that run as root.")
@click.option(
    "--exit-code",
    "exit_codes",
    type=click.IntRange(0, 255),
    multiple=True,
    help="Success is this exit code, not 0; repeatable.",
)
@click.option("--detach", is_flag=True, help="Let background processes run on; else they end with the command.")
@click.option("--keep-locks", is_flag=True, help="As --detach, and keep the locks until the last of them has ended.")
@submit_options
@wait_options
@click.argument("words", metavar="[--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(
    words: Sequence[str],
    locks: Sequence[LockWish],
    depends: Sequence[list[object]],
    timeout: float | None,
    cwd: Path | None,
    stdin_from: Path | None,
    stdin_text: str | None,
    stderr: str | None,
    memory: int | None,
    cpus: float | None,
    nice: int | None,
    ulimits: Sequence[tuple[str, list[int]]],
    env: Sequence[tuple[str, str]],
    shell: bool,
    user: str | None,
    exit_codes: Sequence[int],
    detach: bool,
    keep_locks: bool,
    **options: Unpack[FollowOptions],
) -> int:
    """Run COMMAND as a job, under locks and after other jobs; print the job's id.

    Its surroundings do not depend on who started the daemons: PATH and LANG of the settings, HOME, USER, LOGNAME
    and SHELL of its user, GANTRY_JOB_ID and its like, and what --env adds; umask 022, at most 1024 open files, no
    other limits, niceness 0; this folder or --cwd; nothing on standard input.

    With --wait the exit code is the command's; 'gantry help exit-codes' tells all others.
    """
    if stdin_from is not None and stdin_text is not None:
        raise click.UsageError("--stdin and --stdin-text exclude each other; give one of them")
    if str(stdin_from) == "-":
        stdin_from, stdin_text = None, read_standard_input()
    _check_text(*words, *(text for variable in env for text in variable), str(cwd), str(stdin_from))
    if user == "":
        raise click.UsageError("--user '' names nobody; leave it out, or write the name of a user")
    wishes = Wishes(**options, ends_as_command=True)
    op: dict[str, object] = {
        "OP_ID": "OP_RUN_COMMAND",
        "argv": list(words),
        "cwd": _place(cwd, "--cwd") if is_remote() else os.path.abspath(cwd or Path.cwd()),
        "shell": shell,
        "env": dict(env),
        "locks": lock_modes(locks),
        "timeout": timeout,
        "user": user,
        "stdin_path": _place(stdin_from, "--stdin"),
        "stdin_text": stdin_text,
        "memory": memory,
        "cpus": cpus,
        "nice": nice,
        "ulimits": dict(ulimits) or None,
        "stderr_apart": True if stderr == "apart" else None,
        "exit_codes": list(exit_codes) or [0],
        "detach": detach or None,
        "keep_locks": keep_locks or None,
        "depends": [list(dependency) for dependency in depends] or None,
    }
    return submit_jobs(
        [[with_wishes({key: value for key, value in op.items() if value is not None}, wishes, "run")]], wishes
    )


def _place(path: Path | None, option: str) -> str | None:
    """The path for the opcode, which has none that depend on the current folder.

    Raises: click.UsageError: the folder is one of this machine, and the job runs on another.
    """
    if path is None:
        return None
    if is_remote() and not path.is_absolute():
        raise click.UsageError(f"{option} '{path}' is on the other machine; write a path that begins with /")
    return os.path.abspath(path)


def _check_text(*texts: str) -> None:
    """Raises: click.UsageError: a text is not UTF-8; Python shows such bytes as lone surrogates."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text).decode(errors="backslashreplace")
            raise click.UsageError(
                f"'{shown:.60}' is not UTF-8, and a job is text; name it by a pattern with --shell, or in a script"
            ) from None
