"""Why a job does not run, in words: one line for each reason that luxid gives.

Source: DESIGN section 6, "Explain"; `protocol.luxi.explain.ExplainJobs`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cli.screen import json_text
from cli.words.times import duration

Reason = Mapping[str, Any]

# of what still lives of a job
PIDS_NAMED: Final = 10
_MINOR: Final = ("aged weight", "weight")
_ENDS: Final = {"success": "succeed", "error": "fail", "canceled": "be canceled"}


def in_words(reason: Reason) -> str:
    """A line; of a kind that is not known here its values as JSON. Durations are those up to now."""
    write = _WRITERS.get(reason.get("kind", ""))
    if write is None:
        return json_text(dict(reason))
    return write(reason)


def worth_telling(reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons without what only tells how a place in the line comes about, if others are not before it."""
    is_behind = any(reason.get("kind") == "order" and reason["position"] > 1 for reason in reasons)
    return [reason for reason in reasons if is_behind or reason.get("kind") not in _MINOR]


def _dependency(reason: Reason) -> str:
    lasting = f" for {_elapsed(reason['since'])}" if reason.get("since") is not None else ""
    state = f", which is {reason['state']}{lasting}," if reason["state"] else ""
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
    holdings = _holdings(reason.get("held", ()))
    return f"of that {reason['weight']:g} for {reason['level']} locks, {beside}{f': {holdings}' if holdings else ''}"


def _lock(reason: Reason) -> str:
    counting = reason["counting_since"]
    holders = _holdings(reason["holders"], reason["lock"], counting)
    return f"{_has_waited(reason)} for {reason['lock']} ({reason['mode']}), held by {holders}"


def _turn(reason: Reason) -> str:
    owners = reason["owners"]
    was = "was" if len(owners) == 1 else "were"
    return f"{_has_waited(reason)} and lets {', '.join(owners)} go first, which {was} passed too often"


def _chain(reason: Reason) -> str:
    parts = list(_links(reason))
    parts += [f"{' waits for '.join((*ring, ring[0]))}: none of them can go on, cancel one" for ring in reason["rings"]]
    if reason["roots"]:
        parts.append(f"the chain ends at {', '.join(reason['roots'])}")
    return "; ".join(parts)


def _links(reason: Reason) -> Iterator[str]:
    """The waits of owners that are no jobs; those of jobs are told below them."""
    for wait in reason["waits"]:
        if wait["job_id"] is None:
            holders = _holdings(wait["holders"], wait["lock"], reason["counting_since"])
            yield f"{wait['owner']} waits for {wait['lock']} ({wait['mode']}), held by {holders}"


def _has_waited(reason: Reason) -> str:
    return f"has waited {_elapsed(reason['waiting_since'], reason['counting_since'])}"


def _holdings(held: Sequence[Reason], asked: str | None = None, counting: float | None = None) -> str:
    """`job/4 (exclusive, for 3m12s), job/5 (node/[lockset] shared)`; the lock only if it is another than asked for."""
    return ", ".join(_holding(each, asked, counting) for each in held)


def _holding(held: Reason, asked: str | None, counting: float | None) -> str:
    lock = "" if held["lock"] == asked else f"{held['lock']} "
    since = held["since"]
    lasting = f", for {_elapsed(since, counting)}" if since is not None or counting is not None else ""
    return f"{held['owner']} ({lock}{held['mode']}{lasting})"


def _elapsed(since: float | None, counting: float | None = None) -> str:
    """Args: counting: what is since before this moment has no known beginning."""
    if since is None:
        return f"more than {duration(time.time() - (counting or time.time()))}"
    return duration(time.time() - since)


def _unknown(reason: Reason) -> str:
    return f"it is not known {reason['what']}: {reason['why']}"


def _moment(reason: Reason) -> str:
    return f"luxid is busy with it ({reason['phase']}), that takes a moment"


def _ending(reason: Reason) -> str:
    pids = ", ".join(map(str, reason["pids"][:PIDS_NAMED]))
    more = f" and {len(reason['pids']) - PIDS_NAMED} more" if len(reason["pids"]) > PIDS_NAMED else ""
    return f"is being killed and keeps its locks until all of it has ended: pid {pids}{more}"


def _unreadable(reason: Reason) -> str:
    return f"the file of job/{reason['job_id']} cannot be read just now, and is tried again: {reason['why']}"


def _obstacle(reason: Reason) -> str:
    return f"no job is started: {reason['what']}"


_WRITERS: Final[Mapping[str, Callable[[Reason], str]]] = {
    "dependency": _dependency,
    "ending": _ending,
    "filter": _rule,
    "limit": _limit,
    "slots": _slots,
    "order": _order,
    "aged weight": _aged,
    "weight": _weight,
    "lock": _lock,
    "turn": _turn,
    "lock chain": _chain,
    "unknown": _unknown,
    "moment": _moment,
    "obstacle": _obstacle,
    "unreadable": _unreadable,
}
# jobs that a line names
_NAMED: Final = 10


def _jobs(job_ids: Sequence[int], count: int | None = None) -> str:
    """`job/1, job/2 and 3 others`; `count` if there are more than are named here."""
    total = len(job_ids) if count is None else count
    shown = [f"job/{job_id}" for job_id in job_ids[:_NAMED]]
    left = total - len(shown)
    return f"{', '.join(shown)}{f' and {left} others' if left > 1 else ' and another' if left else ''}"
