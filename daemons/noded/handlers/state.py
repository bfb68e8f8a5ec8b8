"""Files of the master's state, by calls of ours.

Source: DESIGN sections 12 and 13.
"""

from collections.abc import Sequence
from typing import Final

from common.durable.atomicfile import FileWrite
from common.errors import Denied, InvalidRequest
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.files.places import Places
from daemons.noded.files.queuefiles import MODE, QueueFiles
from protocol.noded.contents import Content
from protocol.noded.names import (
    LOST_FOUND,
    SUBMISSIONS,
    is_archive_folder,
    may_be_listed,
    may_be_read,
    may_be_removed,
    may_be_written,
    original_name,
)
from protocol.noded.statefiles import (
    MOST_FILES,
    ListStateFiles,
    ReadStateFiles,
    RemoveStateFiles,
    StateFile,
    WriteStateFiles,
)

_log: Final = get_log(__name__)
# the mode that luxid gives to keys
_KEY_MODE: Final = 0o600


class StateHandlers:
    """Raises, all: Denied: a name that is not in the list. InvalidRequest: too many names. OSError."""

    def __init__(self, files: QueueFiles, places: Places) -> None:
        self._files = files
        self._places = places

    async def write(self, call: WriteStateFiles) -> None:
        """All names are checked before the first file is written."""
        _check(call.METHOD, [file.name for file in call.files])
        await self._files.replace([self._write(file) for file in call.files])

    async def remove(self, call: RemoveStateFiles) -> None:
        """All names are checked before the first file is removed."""
        _check(call.METHOD, call.names)
        for name in call.names:
            if not may_be_removed(name):
                raise Denied(f"'{name}' is not a file that may be removed on this node")
        paths = [self._places.state_file(name) for name in call.names]
        if not call.keeps:
            await self._files.remove(paths)
        elif found := await self._files.set_aside(paths):
            reason = "the master has none, and has not removed them"
            _log.warning("files.set_aside", count=len(found), first=found[0], reason=reason)

    async def read(self, call: ReadStateFiles) -> tuple[Content | None, ...]:
        """All names are checked before the first file is read; a file that has become too large is an error."""
        _check(call.METHOD, call.names)
        for name in call.names:
            if not may_be_read(name):
                raise Denied(f"'{name}' is not a file that may be read on this node")
        paths = [self._places.state_file(name) for name in call.names]
        return tuple(None if data is None else Content(data) for data in await in_thread(self._files.read, paths))

    async def names(self, call: ListStateFiles) -> tuple[str, ...]:
        if not may_be_listed(call.folder):
            raise Denied(f"'{call.folder}' is not a folder of the master's state")
        folder = self._places.state_folder(call.folder)
        if call.folder == LOST_FOUND:
            below = await in_thread(self._files.names_below, folder)
            known = sorted(name for name in below if name > call.after and original_name(name) is not None)
            return tuple(known[:MOST_FILES])
        found = [f"{call.folder}/{name}" for name in await in_thread(self._files.names_in, folder)]
        known = sorted(
            name for name in found if name > call.after and (may_be_removed(name) or is_archive_folder(name))
        )
        return tuple(known[:MOST_FILES])

    def _write(self, file: StateFile) -> FileWrite:
        if not may_be_written(file.name):
            raise Denied(f"'{file.name}' is not a file that may be written to this node")
        is_key = file.name.startswith(f"{SUBMISSIONS}/")
        mode = _KEY_MODE if is_key else MODE
        return FileWrite(self._places.state_file(file.name), file.content.data, mode, precedes=is_key)


def _check(method: str, names: Sequence[str]) -> None:
    if len(names) > MOST_FILES:
        raise InvalidRequest(f"{method} takes at most {MOST_FILES} files, got {len(names)}")
