"""Files that the master sends: the queue, its state, the configuration."""

import os
import signal
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from common.daemons import NodeKind
from common.durable.atomicfile import FileWrite
from common.errors import Denied, GantryError, InvalidRequest
from common.nodes.nodeplace import place_of
from common.settings import Settings
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.running import find_supervisor
from daemons.noded.files.nodefiles import SsconfFiles, upload
from daemons.noded.files.places import NodePaths
from daemons.noded.files.queuefiles import MODE, QueueFileCopies
from protocol.noded.call import Content
from protocol.noded.files import FileFacts, FileUpload, GetFileInfo, UploadFile, UploadFileSingle, WriteSsconfFiles
from protocol.noded.statefiles import (
    MOST_FILES,
    SET_ASIDE,
    SUBMISSIONS,
    JobqueuePurge,
    JobqueueRename,
    JobqueueSetDrainFlag,
    JobqueueUpdate,
    ListStateFiles,
    ReadStateFiles,
    RemoveStateFiles,
    StateFile,
    WriteStateFiles,
    is_archive_folder,
    may_be_listed,
    may_be_read,
    may_be_removed,
    may_be_set_aside,
    may_be_written,
    original_name,
)

# The job queue, and other files of the master's state.
#
# Source: noded.md 6; DESIGN sections 12 and 13.


_log: Final = get_log(__name__)
# the mode that luxid gives to keys
_KEY_MODE: Final = 0o600


class QueueHandlers:
    """Raises, all: InvalidRequest, Denied: too many names, or one that is not in the list. OSError."""

    def __init__(self, files: QueueFileCopies, places: NodePaths) -> None:
        self._files = files
        self._places = places

    async def update(self, call: JobqueueUpdate) -> None:
        await self._files.update(self._places.queue_file(call.file_name), call.content.data)

    async def rename(self, call: JobqueueRename) -> tuple[None, ...]:
        """All names are checked before the first file is moved."""
        moves = [(self._places.queue_file(move.old), self._places.queue_file(move.new)) for move in call.moves]
        await self._files.rename(moves)
        return (None,) * len(moves)

    async def purge(self, _: JobqueuePurge) -> None:
        await self._files.purge()

    async def set_drain_flag(self, call: JobqueueSetDrainFlag) -> None:
        await self._files.set_drain_flag(call.flag)

    # files of the master's state, by calls of ours

    async def write_state(self, call: WriteStateFiles) -> None:
        """All names are checked before the first file is written."""
        _check(call.METHOD, [file.name for file in call.files])
        await self._files.replace([self._write(file) for file in call.files])

    async def remove_state(self, call: RemoveStateFiles) -> None:
        """All names are checked before the first file is removed."""
        _check(call.METHOD, call.names)
        for name in call.names:
            if not (may_be_set_aside(name) if call.keeps else may_be_removed(name)):
                raise Denied(f"'{name}' is not a file that may be removed on this node")
        paths = [self._places.state_file(name) for name in call.names]
        if not call.keeps:
            await self._files.remove(paths)
        elif found := await self._files.set_aside(paths):
            reason = "the master has none, and has not removed them"
            _log.warning("files.set_aside", count=len(found), first=found[0], reason=reason)

    async def read_state(self, call: ReadStateFiles) -> tuple[Content | None, ...]:
        """All names are checked before the first file is read; a file that has become too large is an error."""
        _check(call.METHOD, call.names)
        for name in call.names:
            if not may_be_read(name):
                raise Denied(f"'{name}' is not a file that may be read on this node")
        paths = [self._places.state_file(name) for name in call.names]
        return tuple(None if data is None else Content(data) for data in await in_thread(self._files.read, paths))

    async def state_names(self, call: ListStateFiles) -> tuple[str, ...]:
        if not may_be_listed(call.folder):
            raise Denied(f"'{call.folder}' is not a folder of the master's state")
        folder = self._places.state_folder(call.folder)
        if call.folder == SET_ASIDE:
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


# Files of the configuration: uploads, ssconf, facts about files.
#
# The master candidates run daemons that other nodes do not. The files of ssconf say who is one, so a change of them
# that makes this node a candidate, or an ordinary node again, lets the supervisor look. A change of the master is left
# to the calls of a failover.
#
# Source: noded.md 6.


# uploads of different files at once: each holds its content in memory
_AT_ONCE: Final = 4


class UploadHandlers:
    """Raises, all: InvalidRequest, Denied: a name that may not be written. Conflict: locked. OSError: the disk."""

    def __init__(self, settings: Settings, places: NodePaths) -> None:
        self._settings = settings
        self._places = places
        self._ssconf = SsconfFiles(settings.paths)
        # path -> turn of its uploads, so that the last to come is the last to be written
        self._turns: dict[Path, trio.Lock] = {}
        self._limiter = trio.CapacityLimiter(_AT_ONCE)

    async def upload_file(self, call: UploadFile) -> None:
        await self._upload(call.file)

    async def upload_file_single(self, call: UploadFileSingle) -> None:
        await self._upload(call.file)

    async def write_ssconf_files(self, call: WriteSsconfFiles) -> None:
        paths = self._places.ssconf(list(call.values))
        contents = {paths[key]: value.content for key, value in call.values.items()}
        await in_thread(self._write_ssconf, contents)

    async def get_file_info(self, call: GetFileInfo) -> FileFacts:
        return await in_thread(_facts, self._places.path(call.file_path))

    def _write_ssconf(self, contents: Mapping[Path, bytes]) -> None:
        before = _place(self._settings)
        self._ssconf.write(contents)
        after = _place(self._settings)
        if after is not before and NodeKind.MASTER not in (before, after):
            _let_supervisor_look(self._settings)

    async def _upload(self, file: FileUpload) -> None:
        # only paths of a closed list come here, so the turns are few
        path = self._places.upload(file.file_name)
        async with self._turns.setdefault(path, trio.Lock()):
            write = partial(upload, path, file, makes_folder=self._places.is_below_data(path))
            await in_thread(write, limiter=self._limiter)


def _place(settings: Settings) -> NodeKind | None:
    """None: it cannot be told."""
    try:
        return place_of(settings)
    except (GantryError, OSError):
        return None


def _let_supervisor_look(settings: Settings) -> None:
    """Let it start and stop what belongs to this node's place; systemd has no such daemons."""
    try:
        supervisor = find_supervisor(settings.paths)
        if supervisor is not None:
            os.kill(supervisor.pid, signal.SIGUSR1)
    except OSError as error:
        _log.warning("place.not_told", reason=error, effect="daemons of a master candidate do not follow the change")


def _facts(path: Path) -> FileFacts:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileFacts(False, {})
    return FileFacts(True, {"size": status.st_size if stat.S_ISREG(status.st_mode) else 0})
