"""Find the parts that a daemon has left in etcd under earlier masterships, or before it died.

Source: common/lease/packing.py.
"""

from collections.abc import Sequence
from typing import Final

from common.lease.packing import decode_list, folder_of, part_key
from common.lease.pointers import Pointer, decode_stored
from protocol.etcd.fenced.liveparts import LiveParts
from protocol.etcd.fenced.untilknown import UntilKnown
from protocol.etcd.kv import Found, Get, KeyValue, Transaction

_PAGE: Final = 1000
_MOST_GETS: Final = 100


async def find_parts(etcd: UntilKnown, parts: str, live: LiveParts) -> None:
    """Tell `live` of all folders of parts. While nobody writes any; one request if there are none.

    Args: parts: the beginning of the keys of the daemon's parts.
    Raises: DamagedFile; NoLongerMaster.
    """
    for folder in await _folders(etcd, parts):
        listed = (await etcd.get(Get(part_key(folder, 0)))).values
        keys = decode_list(listed[0].key, listed[0].value) if listed else []
        found = await _read(etcd, keys)
        live.found(folder, [(each.key, each.mod_revision) for each in found if _points_to(each, folder)])


async def _folders(etcd: UntilKnown, parts: str) -> Sequence[str]:
    folders: dict[str, None] = {}
    after = ""
    while True:
        found: Found = await etcd.get(Get(parts, is_prefix=True, keys_only=True, limit=_PAGE, after=after))
        folders.update(dict.fromkeys(folder_of(each.key) for each in found.values))
        if not found.more:
            return list(folders)
        after = found.values[-1].key


async def _read(etcd: UntilKnown, keys: Sequence[str]) -> Sequence[KeyValue]:
    values: list[KeyValue] = []
    for at in range(0, len(keys), _MOST_GETS):
        outcome = await etcd.transact(Transaction([], [Get(key) for key in keys[at : at + _MOST_GETS]]))
        values += [each for found in outcome.found for each in found]
    return values


def _points_to(each: KeyValue, folder: str) -> bool:
    found = decode_stored(each.key, each.value)
    return isinstance(found, Pointer) and found.folder == folder
