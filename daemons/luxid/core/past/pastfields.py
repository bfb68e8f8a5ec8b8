"""The fields of the history, as filters name them and as the index has them.

Source: everyday.md section g; `protocol.luxi.history.EndedJob`.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.query.predicate import FilterError
from common.queue.terms import check_label

LABEL: Final = "label."


class Kind(enum.Enum):
    """What a field holds."""

    TEXT = "a text"
    NUMBER = "a number"
    TRUTH = "true or false"


@attrs.frozen
class PastField:
    """A field: an expression of SQL, and its parameters."""

    kind: Kind
    sql: str
    params: tuple[str | int, ...] = ()


@attrs.frozen
class Eyes:
    """Whose eyes see the history. Args: uid: the user; None: one who sees all of every job."""

    uid: int | None

    def field(self, name: str) -> PastField:
        """Raises: FilterError: there is no such field."""
        if name.startswith(LABEL):
            return _label(name.removeprefix(LABEL))
        name = _ALIASES.get(name, name)
        private = _PRIVATE.get(name)
        if private is not None:
            return private if self.uid is None else PastField(private.kind, _OTHERS[name], (self.uid,))
        if name not in _PUBLIC:
            known = ", ".join((*_PUBLIC, *_PRIVATE, "label.KEY"))
            raise FilterError(f"there is no field {name!r} in the history; there are {known}")
        return _PUBLIC[name]


def _label(key: str) -> PastField:
    try:
        check_label(key, "")
    except InvalidRequest as error:
        raise FilterError(error.message) from None
    return PastField(Kind.TEXT, "json_extract(labels, ?)", (f'$."{key}"',))


_PUBLIC: Final[Mapping[str, PastField]] = {
    "id": PastField(Kind.NUMBER, "id"),
    "status": PastField(Kind.TEXT, "status"),
    "user": PastField(Kind.TEXT, "user"),
    "received": PastField(Kind.NUMBER, "received"),
    "eligible": PastField(Kind.NUMBER, "eligible"),
    "start": PastField(Kind.NUMBER, "start"),
    "end": PastField(Kind.NUMBER, '"end"'),
    "wait": PastField(Kind.NUMBER, "wait"),
    "run": PastField(Kind.NUMBER, "run"),
    "tries": PastField(Kind.NUMBER, "tries"),
    "node": PastField(Kind.TEXT, "node"),
    "batch": PastField(Kind.TEXT, "batch"),
    "archived": PastField(Kind.TRUTH, "(place > 0)"),
}
# what only the owner and operators see whole
_PRIVATE: Final[Mapping[str, PastField]] = {
    "name": PastField(Kind.TEXT, "(CASE WHEN name = '' THEN summary ELSE name END)"),
    "summary": PastField(Kind.TEXT, "summary"),
    "why": PastField(Kind.TEXT, "why"),
    "exit_code": PastField(Kind.NUMBER, "exit_code"),
}
_OTHERS: Final[Mapping[str, str]] = {
    "name": "(CASE WHEN name <> '' THEN name WHEN uid = ? THEN summary ELSE public_summary END)",
    "summary": "(CASE WHEN uid = ? THEN summary ELSE public_summary END)",
    "why": "(CASE WHEN uid = ? THEN why ELSE public_why END)",
    "exit_code": "(CASE WHEN uid = ? THEN exit_code END)",
}
# names of the list of jobs, and of the reply
_ALIASES: Final[Mapping[str, str]] = {
    **{f"{name}_{end}": name for name in ("received", "eligible", "start", "end") for end in ("ts", "at")},
    **{"wait_s": "wait", "run_s": "run", "exit": "exit_code", "summary_text": "summary", "is_archived": "archived"},
}
