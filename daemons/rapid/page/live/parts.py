"""The parts of a page that differ from what the browser has.

Theory. A part is drawn whole, and compared with what was sent last. Where only rows of a list of jobs differ, and the
list has the same jobs in the same order, only these rows are sent. Texts on a page are escaped, so no text can look
like the end of a row.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

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


def appended(target: str, text: str) -> str:
    """The element by which htmx adds to the one with this id. Args: text: escaped."""
    return f'<hx-partial hx-target="#{target}" hx-swap="beforeend">{text}</hx-partial>'


def event(data: str, event_id: str = "") -> bytes:
    """One message of an event stream."""
    lines = [f"id: {event_id}"] if event_id else []
    # a CR would end a line, too
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return ("\n".join(lines) + "\n\n").encode()
