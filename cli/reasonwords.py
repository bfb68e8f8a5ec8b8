"""Why a job does not run, in words: one line for each reason that luxid gives.

Source: DESIGN section 6, "Explain"; `protocol.luxi.ExplainJobs`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

Reason = Mapping[str, Any]

_MINOR: Final = ("aged weight", "weight")
_ENDS: Final = {"success": "succeed", "error": "fail", "canceled": "be canceled"}


def in_words(reason: Reason) -> str:
    """A line; of a kind that is not known here its values as JSON."""
    write = _WRITERS.get(reason.get("kind", ""))
    if write is None:
        return orjson.dumps(dict(reason)).decode()
    return write(reason)


def worth_telling(reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons without what only tells how a place in the line comes about, if others are not before it."""
    is_behind = any(reason.get("kind") == "order" and reason["position"] > 1 for reason in reasons)
    return [reason for reason in reasons if is_behind or reason.get("kind") not in _MINOR]


def _dependency(reason: Reason) -> str:
    state = f", which is {reason['state']}," if reason["state"] else ""
    wanted = reason["wanted"]
    end = " or ".join(_ENDS.get(each, each) for each in wanted) if 0 < len(wanted) < len(_ENDS) else "end"
    return f"waits for job/{reason['job_id']}{state} to {end}"


def _rule(reason: Reason) -> str:
    match reason["action"]:
        case [_, count]:
            effect = f"may run beside at most {count - 1} others of" if count > 1 else "must run alone among those of"
        case "REJECT":
            effect = "is rejected by"
        case _:
            effect = "is paused by"
    words = next((entry[1] for entry in reason["reason_trail"] if entry[0] == "gnt:user"), "")
    return f"{effect} filter rule {reason['uuid']}{f': {words}' if words else ''}"


def _limit(reason: Reason) -> str:
    name = f"rate limit '{reason['name']}'" if reason["is_bucket"] else f"limit of filter rule {reason['name']}"
    return f"the {name} is full, {reason['running_count']} of {reason['limit']} run: {_jobs(reason['members'])}"


def _slots(reason: Reason) -> str:
    return f"no place is free, {reason['used']} of {reason['slots']} are taken: {_jobs(reason['running'])}"


def _order(reason: Reason) -> str:
    if reason["position"] == 1:
        return "is first in line"
    return f"is number {reason['position']} in line, behind {_jobs(reason['ahead'], reason['position'] - 1)}"


def _aged(reason: Reason) -> str:
    faded = f", {reason['aged']:g} of it left after {reason['ticks']} ticks" if reason["ticks"] else ""
    return f"its locks weigh {reason['static']:g} in the line{faded}"


def _weight(reason: Reason) -> str:
    beside = f"beside those of {_jobs(reason['job_ids'])}" if reason["job_ids"] else "as they stop all others"
    return f"of that {reason['weight']:g} for {reason['level']} locks, {beside}"


def _moment(reason: Reason) -> str:
    return f"luxid is busy with it ({reason['phase']}), that takes a moment"


def _obstacle(reason: Reason) -> str:
    return f"no job is started: {reason['what']}"


_WRITERS: Final[Mapping[str, Callable[[Reason], str]]] = {
    "dependency": _dependency,
    "filter": _rule,
    "limit": _limit,
    "slots": _slots,
    "order": _order,
    "aged weight": _aged,
    "weight": _weight,
    "moment": _moment,
    "obstacle": _obstacle,
}
# jobs that a line names
_NAMED: Final = 10


def _jobs(job_ids: Sequence[int], count: int | None = None) -> str:
    """`job/1, job/2 and 3 others`; `count` if there are more than are named here."""
    total = len(job_ids) if count is None else count
    shown = [f"job/{job_id}" for job_id in job_ids[:_NAMED]]
    left = total - len(shown)
    return f"{', '.join(shown)}{f' and {left} others' if left > 1 else ' and another' if left else ''}"
