"""`gnt-job submit`: submit jobs from a JSON file.

The file holds one job (a list of opcode objects), several jobs (a list of such lists, which may
depend on one another by relative ids), or a single opcode object: a job with one opcode.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Unpack

import click
import orjson

from cli.commands import WaitingCommand
from cli.submission import FollowOptions, Wishes, submit_jobs, submit_options, wait_options, with_wishes
from common.errors import InvalidRequest
from protocol.luxi.submission import OpInput


@click.command(
    "submit",
    cls=WaitingCommand,
    examples=(
        "gnt-job submit job.json",
        """echo '[{"OP_ID": "OP_RUN_COMMAND", "argv": ["uname", "-a"]}]' | gnt-job submit --wait -""",
        """echo '[[{...}], [{..., "depends": [[-1, ["success"]]]}]]' | gnt-job submit -""",
    ),
)
@click.argument("file", metavar="FILE|-", type=click.Path(readable=False, allow_dash=True, path_type=Path))
@submit_options
@wait_options
def submit(file: Path, **options: Unpack[FollowOptions]) -> int:
    """Submit the jobs in FILE, or on standard input (-), and print their ids."""
    wishes = Wishes(**options, ends_as_command=True)
    jobs = read_jobs(_read_input(), "standard input") if str(file) == "-" else read_jobs(file.read_bytes(), str(file))
    return submit_jobs([[with_wishes(op, wishes, "submit") for op in job] for job in jobs], wishes)


def _read_input() -> bytes:
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed; name a file, or pipe the jobs in")
    return sys.stdin.buffer.read()


def read_jobs(text: bytes, name: str) -> list[list[OpInput]]:
    """The jobs that a file's text holds, at least one; each has at least one opcode.

    Raises: InvalidRequest: the text is not JSON, with line and column; or has another shape, with the place in it.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        reason = reason.partition(": line ")[0]
        raise InvalidRequest(f"{name}:{error.lineno}:{error.colno}: not JSON: {reason}") from None
    _refuse_repeated_keys(text, name)
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise _refuse(name, "$", "a list of opcodes, or of jobs", value)
    if isinstance(value[0], list):
        return [_read_job(job, name, f"$[{place}]") for place, job in enumerate(value)]
    return [_read_job(value, name, "$")]


def _refuse_repeated_keys(text: bytes, name: str) -> None:
    """Refuse a key that an object has twice, as a lock in two modes: only the last value would count."""

    def check(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            repeated = next(key for place, key in enumerate(keys) if key in keys[:place])
            raise InvalidRequest(f"{name}: an object has the key '{repeated}' twice; write it once")

    # nested deeper than this slow parser can go: luxid refuses that
    with contextlib.suppress(RecursionError):
        json.loads(text, object_pairs_hook=check)


def _read_job(value: object, name: str, place: str) -> list[OpInput]:
    if not isinstance(value, list) or not value:
        raise _refuse(name, place, "a job: a list of at least one opcode", value)
    for index, op in enumerate(value):
        if not isinstance(op, dict):
            raise _refuse(name, f"{place}[{index}]", "an opcode: an object with an OP_ID", op)
        if not isinstance(op.get("OP_ID"), str):
            raise InvalidRequest(f'{name}: the opcode lacks a string OP_ID, e.g. "OP_RUN_COMMAND" @ {place}[{index}]')
    return value


def _refuse(name: str, place: str, expected: str, value: object) -> InvalidRequest:
    shown = orjson.dumps(value).decode()
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return InvalidRequest(f"{name}: expected {expected}, got {shown} @ {place}")
