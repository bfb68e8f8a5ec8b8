"""An opcode without what depends on the time of its submission.

A command that is run again under the key of an earlier submission is the same one, if it differs only in this: the
times in the reason trails, the id of the batch, which is drawn anew, and the instant at which the job may begin, which
`--begin 'in 2h'` names anew.

Source: DESIGN section 16, "a submission key for scripts".
"""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue import batch, terms

_BATCH_ID: Final = re.compile(r"id=[^;]*", re.ASCII)


def timeless(op: Mapping[str, object]) -> dict[str, object]:
    """The opcode in its written form, with trails of `[source, text]`."""
    trail = op.get("reason")
    if not isinstance(trail, list | tuple):
        return dict(op)
    return {**op, "reason": [_entry(str(entry[0]), str(entry[1])) for entry in trail]}


def _entry(source: str, text: str) -> list[str]:
    if source == batch.SOURCE:
        return [source, _BATCH_ID.sub("", text, count=1)]
    return [source, _terms(text)] if source == terms.SOURCE else [source, text]


def _terms(text: str) -> str:
    try:
        found = terms.check_terms(text)
    except InvalidRequest:
        # it is refused, and its words tell why
        return text
    hold = None if found.hold is None else attrs.evolve(found.hold, by="", at=0.0)
    return terms.write_terms(attrs.evolve(found, begin_at=None, hold=hold))
