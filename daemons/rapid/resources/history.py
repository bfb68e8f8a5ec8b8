"""What ran.

Source: DESIGN sections 15 and 16.
"""

import time
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from typing import Final

import attrs
import orjson

from common.jsontext import read_json
from common.queue.jobs import FINAL_NAMES, JobState
from common.webaccess.rights import Right
from common.words.filters.jobfilter import past_filter
from daemons.rapid.calls import Asked, Call, CallParameter
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.parameters import choice, choice_of, flag, flag_of, text_of, whole, whole_of, words_of
from protocol.luxi import history as luxi
from protocol.luxi.history import Prune
from protocol.rapid.explanations import History, HistorySummary, PruneWish, Removed

_NUMBER: Final = {"type": "number", "minimum": 0}
SINCE: Final = CallParameter("since", "jobs that ended at this instant or later, in seconds since 1970", _NUMBER)
UNTIL: Final = CallParameter("until", "jobs that ended before this instant, in seconds since 1970", _NUMBER)
STATUS: Final = CallParameter("status", f"states with commas between: {', '.join(FINAL_NAMES)}; all if left out")
FILTER: Final = CallParameter("filter", 'filter of ended jobs, such as "label.team=web & wait>60"')
SORT: Final = choice("sort", "what to sort by", [each.value for each in luxi.Sorting], luxi.Sorting.END.value)
ASCENDING: Final = flag("ascending", "whether the smallest comes first")
LIMIT: Final = whole("limit", "number of jobs", default=100, low=1, high=1000)
OFFSET: Final = whole("offset", "number of jobs to leave out before", default=0)
BY: Final = choice("by", "what to sum up by", [each.value for each in luxi.Grouping], luxi.Grouping.NAME.value)
LABEL: Final = CallParameter("label", "key of the label, with by=label")
ZONE: Final = CallParameter("zone", "time zone of days, with by=day; UTC if left out")
CHOICE: Final = (SINCE, UNTIL, STATUS, FILTER)


async def list_history(asked: Asked) -> History:
    call = luxi.ReadHistory(
        _choice(asked),
        luxi.Sorting(choice_of(asked, SORT)),
        flag_of(asked, ASCENDING),
        whole_of(asked, LIMIT) or 0,
        whole_of(asked, OFFSET) or 0,
    )
    found = await asked.daemons.luxid(call)
    return History(found.jobs, found.total, found.unread)


async def summarize_history(asked: Asked) -> HistorySummary:
    by, label = luxi.Grouping(choice_of(asked, BY)), text_of(asked, LABEL) or ""
    if by is luxi.Grouping.LABEL and not label:
        raise RequestRefused(400, "by=label needs the key of the label: label=team")
    call = luxi.SummarizeHistory(_choice(asked), by, label, text_of(asked, ZONE) or "UTC")
    return HistorySummary(await asked.daemons.luxid(call))


def _choice(asked: Asked) -> luxi.Past:
    """Raises: RequestRefused: a parameter is malformed. InvalidRequest: the filter is."""
    text = text_of(asked, FILTER)
    return luxi.Past(
        since=_instant(asked, SINCE),
        until=_instant(asked, UNTIL),
        states=tuple(_state(word) for word in words_of(asked, STATUS) or ()),
        filter=None if text is None else _filter(text),
    )


def _filter(text: str) -> object:
    """The filter of a text that people write, or that is JSON of the query language."""
    if not text.lstrip().startswith("["):
        return past_filter(text, time.time(), UTC)
    try:
        return read_json(text)
    except orjson.JSONDecodeError as error:
        raise RequestRefused(400, f"filter: it begins with '[', but is not JSON: {error}") from None


def _state(word: str) -> JobState:
    if word not in FINAL_NAMES:
        raise RequestRefused(400, f"parameter 'status' has {word!r:.40}; ended jobs are {', '.join(FINAL_NAMES)}")
    return JobState(word)


def _instant(asked: Asked, parameter: CallParameter) -> float | None:
    text = text_of(asked, parameter)
    if text is None:
        return None
    try:
        at = float(text)
    except ValueError:
        at = -1.0
    # this form refuses nan as well
    if not 0 <= at < 1e12:
        raise RequestRefused(400, f"parameter {parameter.name!r} must be seconds since 1970, got {text!r:.40}")
    return at


# Remove what is kept no longer, over HTTP.
#
# Source: DESIGN sections 15 and 16.


async def prune(asked: Asked) -> Removed:
    """Raises: Denied: the caller may only ask what would be removed. Unavailable: it cannot be done now."""
    done = await asked.daemons.luxid(Prune(asked.body_as(PruneWish).dry_run))
    return Removed(**attrs.asdict(done))


def rows() -> Sequence[Call]:
    """The calls about ended jobs."""
    past = partial(Call, "GET", tag="history", rights=(Right.JOBS_READ,), only_waits=True)
    return [
        past(
            "/3/history",
            list_history,
            "List ended jobs, archived ones included.",
            gives=History,
            parameters=(*CHOICE, SORT, ASCENDING, LIMIT, OFFSET),
        ),
        past(
            "/3/history/summary",
            summarize_history,
            "Sum up ended jobs.",
            gives=HistorySummary,
            parameters=(*CHOICE, BY, LABEL, ZONE),
        ),
        Call(
            "POST",
            "/3/prune",
            prune,
            "Remove what is kept no longer, or tell what.",
            tag="history",
            rights=(Right.QUEUE_WRITE,),
            takes=PruneWish,
            gives=Removed,
            changes=True,
        ),
    ]
