"""The parts of a page that differ from what the browser has.

Theory. A part is drawn whole, and compared with what was sent last. Where only rows of a list of jobs differ, and the
list has the same jobs in the same order, only these rows are sent. Texts on a page are escaped, so no text can look
like the end of a row.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from common.ids import JobId
from daemons.rapid.events.hub import LoggedEvent
from protocol.rapid.events import Topic

_ROW: Final = re.compile(r'<tr id="(job-\d+)">.*?</tr>', re.DOTALL)


def partials(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """What the browser must put in place.

    Args:
        before: id of a part -> its text, as it was sent.
        after: as it is now.
    """
    for part, text in after.items():
        old = before.get(part)
        if old is None:
            yield partial(part, text)
        elif old != text:
            yield from _changed(part, old, text)


def _changed(part: str, old: str, text: str) -> Iterator[str]:
    before, after = _rows(old), _rows(text)
    is_same_list = list(before) == list(after) and _ROW.sub("", old) == _ROW.sub("", text)
    if not after or not is_same_list:
        yield partial(part, text)
        return
    for row, drawn in after.items():
        if before[row] != drawn:
            yield partial(row, drawn)


def _rows(text: str) -> dict[str, str]:
    return {match[1]: match[0] for match in _ROW.finditer(text)}


def partial(target: str, text: str) -> str:
    """The element that htmx puts in the place of the one with this id, keeping what has not changed in it."""
    return f'<hx-partial hx-target="#{target}" hx-swap="outerMorph">{text}</hx-partial>'


def appended(target: str, text: str, *, is_all: bool = False) -> str:
    """The element by which htmx adds to the one with this id.

    Args: text: escaped. is_all: whether it takes the place of all that is in it.
    """
    return f'<hx-partial hx-target="#{target}" hx-swap="{"innerHTML" if is_all else "beforeend"}">{text}</hx-partial>'


def event(data: str, event_id: str = "") -> bytes:
    """One message of an event stream."""
    lines = [f"id: {event_id}"] if event_id else []
    # a CR would end a line, too
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


# Whether something on an open page may have changed, by the events of the hub.


# the line about the cluster is on every page
EVERYWHERE: Final = frozenset({Topic.QUEUE})


@attrs.frozen
class Interest:
    """What a page shows."""

    topics: frozenset[Topic] = EVERYWHERE
    # jobs whose changes it shows; None: all
    job_ids: frozenset[JobId] | None = None

    @classmethod
    def of(cls, *topics: Topic, job_ids: Iterable[int] | None = None) -> "Interest":
        ids = None if job_ids is None else frozenset(map(JobId, job_ids))
        return cls(EVERYWHERE | frozenset(topics), ids)

    def concerns(self, events: Collection[LoggedEvent] | None) -> bool:
        """Whether one of these events is about it. Args: events: None: they are not known any more."""
        return events is None or any(self._concerns(event) for event in events)

    def _concerns(self, event: LoggedEvent) -> bool:
        if event.topic is None:
            # everything may have changed
            return True
        if event.topic is not Topic.JOBS or self.job_ids is None:
            return event.topic in self.topics
        return Topic.JOBS in self.topics and not self.job_ids.isdisjoint(event.jobs)
