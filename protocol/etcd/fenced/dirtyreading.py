"""Read all that was committed under some prefixes of etcd, as it was at one revision.

Source: DESIGN section 14; common/lease/joining.py.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import attrs

from common.errors import Unavailable
from common.lease.joining import Dirty, Stored, folders_of, join
from protocol.etcd.errors import Compacted
from protocol.etcd.fenced.untilknown import Etcd
from protocol.etcd.kv import Found, Get

# keys of one reply; values are at most 1 MiB each, and most are some KiB
PAGE_KEYS: Final = 200
# parts of one reply, of 512 KiB each
_PAGE_PARTS: Final = 16
# readings that a compaction has overtaken
_MOST_READINGS: Final = 5
_Ask = Callable[[Get], Awaitable[Found]]


async def read_dirty(client: Etcd, prefixes: Sequence[str], *, since: int = 0) -> Dirty:
    """Return what is committed: a change of parts without its last transaction is not.

    It costs one request for 200 keys; other clients may write meanwhile.

    Args:
        since: the reading is not older than this revision; that of the caller's mastership, or of its last write.
            A member of etcd that was stopped for a while may serve what was, in spite of its promise.
    Raises:
        DamagedFile: a value is not ours, or parts are missing.
        Unavailable: no member of etcd replies in time, or all are behind; try again.
    """
    return await read_with(client.get, prefixes, since=since)


async def read_with(ask: _Ask, prefixes: Sequence[str], *, since: int) -> Dirty:
    """As `read_dirty`. Args: ask: what sends a request."""
    for _ in range(_MOST_READINGS - 1):
        try:
            return await _read(ask, prefixes, since)
        except Compacted:
            continue
    return await _read(ask, prefixes, since)


async def _read(ask: _Ask, prefixes: Sequence[str], since: int) -> Dirty:
    revision, stored = 0, list[Stored]()
    for prefix in prefixes:
        pages = _Pages(ask, prefix, PAGE_KEYS, revision)
        stored += await pages.read()
        revision = pages.revision
        if revision < since:
            raise Unavailable(f"a member of etcd is at revision {revision}, which is before {since}; try again")
    return join(stored, await _parts(ask, folders_of(stored), revision), revision)


async def _parts(ask: _Ask, folders: Iterable[str], revision: int) -> Sequence[Stored]:
    found: list[Stored] = []
    for folder in sorted(folders):
        found += await _Pages(ask, folder, _PAGE_PARTS, revision).read()
    return found


@attrs.define
class _Pages:
    ask: _Ask
    prefix: str
    limit: int
    # at which all is read; 0: the present one, which the first reply tells
    revision: int

    async def read(self) -> Sequence[Stored]:
        stored: list[Stored] = []
        while True:
            after = stored[-1].key if stored else ""
            found = await self.ask(
                Get(self.prefix, is_prefix=True, limit=self.limit, after=after, revision=self.revision)
            )
            self.revision = self.revision or found.header.revision
            stored += [Stored(each.key, each.value, each.mod_revision) for each in found.values]
            if not found.more:
                return stored
