"""The exit code of a tool that waits for a command, computed from the ends of its jobs.

Source: everyday.md i; `cli.exitcodes`.
"""

import signal
from collections.abc import Mapping, Sequence
from typing import Final

from cli.exitcodes import DONE, FAILED, NEVER_RAN, OURS, SIGNALLED, TIME_OVER
from cli.outcomes import code_of_all, that_count
from common.words.outcome import Outcome

_COMMAND: Final = "OP_RUN_COMMAND"
_NOT_AS_NEEDED: Final = "OpPrereqError"


def wait_code(outcomes: Sequence[Outcome], *, is_highest: bool = False) -> int:
    """For one job the exit code of its command; for several 0 if all succeeded, else 1, or the highest of theirs.

    Of several, those that were not needed do not count.
    """
    if len(outcomes) == 1 or (is_highest and outcomes):
        return max(map(_code_of, that_count(outcomes)), default=DONE)
    return code_of_all(outcomes)


def _code_of(job: Outcome) -> int:
    match job.status:
        case "success":
            codes = [result.get("exit_code") for result in job.results if isinstance(result, Mapping)]
            return next((code for code in reversed(codes) if isinstance(code, int)), DONE)
        case "canceled":
            return NEVER_RAN
        case "error":
            place = next((at for at, status in enumerate(job.statuses) if status == "error"), None)
            return OURS if place is None else _code_of_failure(job, place)
        case _:
            return OURS


def _code_of_failure(job: Outcome, place: int) -> int:
    match job.results[place]:
        case [_, [_, {"exit_code": code, **end}]]:
            return _code_of_end(code, end)
        case [str(name), *_] if name == _NOT_AS_NEEDED:
            return NEVER_RAN
        case _ if not job.has_begun(place):
            return NEVER_RAN
        case _:
            # what kept us from knowing must not be taken for the command's own word
            return OURS if job.op_id(place) == _COMMAND else FAILED


def _code_of_end(code: object, end: Mapping[object, object]) -> int:
    """Args: end: the other fields that the opcode's error has about the command."""
    if not end.get("has_begun", True):
        return NEVER_RAN
    if end.get("timed_out"):
        return TIME_OVER
    if isinstance(code, int):
        # 0 is a failure where another code was wanted
        return code or FAILED
    name = str(end.get("signal") or "")
    if name in signal.Signals.__members__:
        return SIGNALLED + signal.Signals[name]
    number = name.removeprefix("SIG")
    return SIGNALLED + int(number) if number.isdigit() else OURS
