"""What keeperd remembers over its restarts, in one file.

Source: lease.md 4.
"""

from pathlib import Path
from typing import Final

import attrs
import orjson

from common.durable.atomicfile import write_file
from common.errors import DamagedFile, GantryError
from common.shapes import Lenient
from common.wire import structure, unstructure
from daemons.keeperd.core.states import Memory

_MODE: Final = 0o640
# starts within the life of a record
_MOST_NONCES: Final = 16


@attrs.frozen(kw_only=True)
class _Kept(Lenient):
    memory: Memory
    # of the last keeperds here, in their records as members
    nonces: tuple[str, ...] = ()


class Memories:
    """Raises: DamagedFile, OSError: the file cannot be read."""

    def __init__(self, path: Path, nonce: str) -> None:
        self._path = path
        kept = _read(path)
        self.memory = kept.memory
        # of this keeperd, and of those that ran here before it: their records may still be there
        self.nonces = (*kept.nonces[1 - _MOST_NONCES :], nonce)
        self.store(self.memory)

    def store(self, memory: Memory) -> None:
        """Raises: OSError. Durability: on return it survives a loss of power."""
        write_file(self._path, orjson.dumps(unstructure(_Kept(memory=memory, nonces=self.nonces))), mode=_MODE)
        self.memory = memory


def _read(path: Path) -> _Kept:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _Kept(memory=Memory())
    try:
        return structure(orjson.loads(content), _Kept, "memory")
    except (orjson.JSONDecodeError, GantryError) as error:
        raise DamagedFile(
            f"'{path}' is not what keeperd has written: {error}; remove it if this cluster's etcd was never restored",
            file=str(path),
        ) from error
