"""Files of the configuration: uploads, ssconf, facts about files.

The master candidates run daemons that other nodes do not. The files of ssconf say who is one, so a change of them that
makes this node a candidate, or an ordinary node again, lets the supervisor look. A change of the master is left to the
calls of a failover.

Source: noded.md 6.
"""

import os
import signal
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from common.daemons import Place
from common.errors import GantryError
from common.nodes.nodeplace import place_of
from common.settings import Settings
from common.system.daemons.running import find_supervisor
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.noded.files.nodefiles import SsconfFiles, upload
from daemons.noded.files.places import Places
from protocol.noded.files import FileFacts, FileUpload, GetFileInfo, UploadFile, UploadFileSingle, WriteSsconfFiles

# uploads of different files at once: each holds its content in memory
_AT_ONCE: Final = 4
_log: Final = get_log(__name__)


class UploadHandlers:
    """Raises, all: InvalidRequest, Denied: a name that may not be written. Conflict: locked. OSError: the disk."""

    def __init__(self, settings: Settings, places: Places) -> None:
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
        if after is not before and Place.MASTER not in (before, after):
            _let_supervisor_look(self._settings)

    async def _upload(self, file: FileUpload) -> None:
        # only paths of a closed list come here, so the turns are few
        path = self._places.upload(file.file_name)
        async with self._turns.setdefault(path, trio.Lock()):
            write = partial(upload, path, file, makes_folder=self._places.is_below_data(path))
            await in_thread(write, limiter=self._limiter)


def _place(settings: Settings) -> Place | None:
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
