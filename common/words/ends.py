"""The end of a job in words: one line that says why.

Source: DESIGN section 6, "Explain"; `common.errors.CommandFailed`.
"""

from collections.abc import Mapping
from typing import Final

from common.words.outcome import WITHHELD, Outcome, result_text
from common.words.usernames import UserName, asker_named

# prefix of the sources with which luxid reports its own acts in a reason trail
_LUXID: Final = "gnt:daemon:luxid:"


def end_words(job: Outcome, user_name: UserName) -> str | None:
    """`failed at opcode 2 of 3, TEST_DUMMY: no such node`; None: the job has not ended, or succeeded.

    Args: user_name: uid -> login; None: the uid has no login.
    """
    match job.status:
        case "canceled":
            return _canceled(job, user_name)
        case "error":
            return _failed(job)
        case _:
            return None


def _canceled(job: Outcome, user_name: UserName) -> str:
    place = next((at for at, status in enumerate(job.statuses) if status == "canceled"), None)
    if place is None:
        return "canceled, it is not known why"
    result = job.results[place]
    if (told := _told_by_luxid(job.ops[place])) is not None and not job.has_begun(place):
        words = told
    elif result is not None:
        words = result_text(result)
    else:
        words = f"canceled; why is {WITHHELD}" if job.has_begun(place) else "canceled, it is not known by whom"
    return f"{asker_named(words, user_name)}{_where(job, place)}"


def _failed(job: Outcome) -> str:
    place = next((at for at, status in enumerate(job.statuses) if status == "error"), None)
    if place is None:
        return "failed, it is not known why"
    result = job.results[place]
    text = result_text(result)
    if not job.has_begun(place):
        return f"never ran: {text}" if place == 0 else f"stopped before opcode {place + 1} of {len(job.ops)}: {text}"
    return f"failed{_how(result)}{_where(job, place)}, {job.summaries[place]}: {text}"


def _how(result: object) -> str:
    match result:
        case [_, [_, {"killed_for": "memory"}]]:
            return " (killed for memory)"
        case [_, [_, {"timed_out": True}]]:
            return " (its time was over)"
        case _:
            return ""


def _where(job: Outcome, place: int) -> str:
    return f" at opcode {place + 1} of {len(job.ops)}" if len(job.ops) > 1 else ""


def _told_by_luxid(op: Mapping[str, object]) -> str | None:
    """luxid's last remark in the opcode's reason trail."""
    trail = op.get("reason")
    entries = trail if isinstance(trail, list) else []
    return next((str(entry[1]) for entry in reversed(entries) if str(entry[0]).startswith(_LUXID)), None)
