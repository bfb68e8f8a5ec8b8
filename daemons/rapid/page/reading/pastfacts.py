"""The history, as far as a visitor chose it."""

from collections.abc import Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue.terms import is_label_key
from common.words.filters.pastfilter import past_filter
from common.words.instants import Toward, parse_instant
from daemons.rapid.calls import Asked
from protocol.luxi.history import EndedJob, Grouping, Past, PastSum, ReadHistory, SummarizeHistory

ROWS: Final = 50
# groups that the page shows
GROUPS: Final = 50
DEFAULT_SINCE: Final = "7d ago"
_LABEL: Final = "label."


@attrs.frozen
class PastChoice:
    """What a visitor chose, in his words."""

    since: str
    where: str
    # value of a `Grouping`, or `label.KEY`
    by: str
    offset: int

    @classmethod
    def asked_for(cls, asked: Asked) -> "PastChoice":
        query = asked.http.query_params
        text = query.get("offset", "")
        return cls(
            query.get("since", DEFAULT_SINCE).strip(),
            query.get("where", "").strip(),
            query.get("by", "").strip() or Grouping.NAME.value,
            int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0,
        )


@attrs.frozen
class PastFound:
    choice: PastChoice
    sums: Sequence[PastSum] = ()
    jobs: Sequence[EndedJob] = ()
    total: int = 0
    unread: int = 0
    # why the choice cannot be used; "": it can
    wrong: str = ""


async def read_past(asked: Asked, choice: PastChoice, now: float) -> PastFound:
    """What the choice finds; one that cannot be used finds nothing."""
    try:
        past = _past(choice, now)
        by, label = _grouping(choice.by)
        sums = await asked.daemons.luxid(SummarizeHistory(past, by, label, limit=GROUPS))
        found = await asked.daemons.luxid(ReadHistory(past, limit=ROWS, offset=choice.offset))
    except InvalidRequest as error:
        return PastFound(choice, wrong=error.message)
    return PastFound(choice, sums, found.jobs, found.total, found.unread)


def _past(choice: PastChoice, now: float) -> Past:
    return Past(
        since=parse_instant(choice.since, now, None, Toward.PAST) if choice.since else None,
        filter=past_filter(choice.where, now, None) if choice.where else None,
    )


def _grouping(by: str) -> tuple[Grouping, str]:
    """Raises: InvalidRequest: nothing is summed up by this."""
    if by.startswith(_LABEL) and is_label_key(by.removeprefix(_LABEL)):
        return Grouping.LABEL, by.removeprefix(_LABEL)
    known = {each.value: each for each in Grouping if each is not Grouping.LABEL}
    if by not in known:
        raise InvalidRequest(f"jobs are summed up by {', '.join(known)} or label.KEY, as in label.team; got {by!r:.60}")
    return known[by], ""
