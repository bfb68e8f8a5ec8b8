"""The names of nodes and node groups in what people read about locks.

Their locks are named by uuid. The name is added and not put in its place: 'node/web1' is another lock.

    put_names = lock_names(lines)
    for line in lines:
        say(put_names(line))            # node/7d1e5f3a-... becomes node/7d1e5f3a-... (web1)
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

from cli.connection import open_luxid
from common.errors import GantryError
from common.objects.kinds import QueryKind
from protocol.luxi.queries import Query

_KINDS: Final = {"node": QueryKind.NODE, "node-res": QueryKind.NODE, "nodegroup": QueryKind.GROUP}
_LOCK: Final = re.compile(rf"\b({'|'.join(_KINDS)})/([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\b")


def lock_names(texts: Iterable[str], *, is_short: bool = False) -> Callable[[str], str]:
    """A function that adds the names in a text. luxid is asked only if a text has such a lock, and once by a process.

    A uuid whose name luxid does not tell has none.

    Args: is_short: leave out most of a uuid that has a name.
    """
    kinds = {_KINDS[level] for text in texts for level, _ in _LOCK.findall(text)}
    names = {uuid: name for kind in kinds for uuid, name in _names(kind).items()}

    def named(found: re.Match[str]) -> str:
        level, uuid = found.groups()
        return f"{level}/{f'{uuid:.8}…' if is_short else uuid} ({names[uuid]})" if uuid in names else found[0]

    return lambda text: _LOCK.sub(named, text)


@cache
def _names(kind: QueryKind) -> Mapping[str, str]:
    try:
        with open_luxid(is_patient=False) as client:
            answer = client.call(Query(kind, ("uuid", "name")))
    except (GantryError, OSError):
        return {}
    return {str(uuid): str(name) for uuid, name in answer.values()}
