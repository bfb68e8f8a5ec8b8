"""Rows of values as the bytes of a file of ours, and back: of `schedules.data`, `resources.data` and `sessions.data`.

A file is a JSON object with its version and a list, one row a line. Each row is encoded once, when it changes, so a
file of thousands is made by joining. Under a lease the same bytes are kept row by row in etcd.

Source: DESIGN section 16.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

import attrs
import orjson
from immutables import Map

from common.errors import DamagedFile, InvalidRequest
from common.resources import Resource
from common.schedules.schedule import Schedule
from common.webaccess.sessions import KeptSession
from common.wire import structure, unstructure

T = TypeVar("T")
VERSION: Final = 1


@attrs.frozen
class Form(Generic[T]):
    """What a file holds."""

    # name of the list in the file, and of its rows in messages: "schedules"
    noun: str
    kind: type[T]
    # returns what no two rows share
    key: Callable[[T], str]

    def contents(self, content: bytes) -> Mapping[str, bytes]:
        """The contents of the rows of a file, by key. Raises: DamagedFile: as `decode`."""
        return {key: row.content for key, row in decode(self, content).items()}


@attrs.frozen(eq=False)
class KeptRow(Generic[T]):
    value: T
    # JSON
    content: bytes


Rows = Map[str, KeptRow[T]]


def with_value(form: Form[T], rows: "Rows[T]", value: T) -> "Rows[T]":
    """The rows with this one, in place of the one with its key."""
    return rows.set(form.key(value), KeptRow(value, orjson.dumps(unstructure(value))))


def encode(form: Form[T], rows: "Rows[T]") -> bytes:
    """The content of the file, by key. Cost: O(rows)."""
    return join(form.noun, (row.content for _, row in sorted(rows.items())))


def join(noun: str, contents: Iterable[bytes]) -> bytes:
    """The content of a file with these rows. Args: noun: of its form."""
    rows = b",\n".join(contents)
    return b'{"version":%d,"%s":[\n%s\n]}\n' % (VERSION, noun.encode(), rows)


def decode(form: Form[T], content: bytes) -> "Rows[T]":
    """Rebuild the rows that were encoded.

    Raises: DamagedFile: not such a file, a row is malformed, or a key is there twice; `where` is the place:
        `byte 17`, or `$.schedules[3]` for the fourth row.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _damaged(form.noun, f"byte {len(error.doc[: error.pos].encode())}", error.msg) from error
    if not isinstance(value, dict) or not isinstance(found := value.get(form.noun), list):
        raise _damaged(form.noun, "$", f"expected an object with a list '{form.noun}'")
    if value.get("version") != VERSION:
        raise _damaged(
            form.noun, "$.version", f"expected {VERSION}, got {value.get('version')!r}; a newer release wrote it"
        )
    rows: Rows[T] = Map()
    for index, row in enumerate(found):
        where = f"$.{form.noun}[{index}]"
        try:
            read = structure(row, form.kind, where)
        except InvalidRequest as error:
            raise _damaged(form.noun, where, error.message) from error
        if form.key(read) in rows:
            raise _damaged(form.noun, where, f"'{form.key(read)}' is there twice")
        rows = with_value(form, rows, read)
    return rows


def changed_rows(before: "Rows[T]", after: "Rows[T]") -> Mapping[str, bytes | None]:
    """The contents of rows that are new or differ, by key; None: the row is gone. Cost: O(rows)."""
    changed: dict[str, bytes | None] = {key: row.content for key, row in after.items() if before.get(key) is not row}
    return changed | {key: None for key in before if key not in after}


def _damaged(noun: str, where: str, what: str) -> DamagedFile:
    return DamagedFile(f"the {noun} are damaged at {where}: {what}", where=where)


# The files of ours that hold rows: which there are, and what is in them.
#
# Source: DESIGN section 16.


SCHEDULES: Final = Form("schedules", Schedule, lambda schedule: schedule.uuid)
RESOURCES: Final = Form("resources", Resource, lambda resource: resource.key)
SESSIONS: Final = Form("sessions", KeptSession, lambda session: session.key)
AnyForm = Form[Schedule] | Form[Resource] | Form[KeptSession]
# by the names of their files
FORMS: Final[Mapping[str, AnyForm]] = {
    "schedules.data": SCHEDULES,
    "resources.data": RESOURCES,
    "sessions.data": SESSIONS,
}
