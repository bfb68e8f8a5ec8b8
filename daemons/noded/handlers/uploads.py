"""Files of the configuration: uploads, ssconf, facts about files.

Source: noded.md 6.
"""

import os
import stat
from functools import partial
from pathlib import Path
from typing import Final

import trio

from common.system.inthread import in_thread
from daemons.noded.files.nodefiles import SsconfFiles, upload
from daemons.noded.files.places import Places
from protocol.noded.files import FileFacts, FileUpload, GetFileInfo, UploadFile, UploadFileSingle, WriteSsconfFiles

# uploads of different files at once: each holds its content in memory
_AT_ONCE: Final = 4


class UploadHandlers:
    """Raises, all: InvalidRequest, Denied: a name that may not be written. Conflict: locked. OSError: the disk."""

    def __init__(self, places: Places, ssconf: SsconfFiles) -> None:
        self._places = places
        self._ssconf = ssconf
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
        await in_thread(self._ssconf.write, contents)

    async def get_file_info(self, call: GetFileInfo) -> FileFacts:
        return await in_thread(_facts, self._places.path(call.file_path))

    async def _upload(self, file: FileUpload) -> None:
        # only paths of a closed list come here, so the turns are few
        path = self._places.upload(file.file_name)
        async with self._turns.setdefault(path, trio.Lock()):
            write = partial(upload, path, file, makes_folder=self._places.is_below_data(path))
            await in_thread(write, limiter=self._limiter)


def _facts(path: Path) -> FileFacts:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileFacts(False, {})
    return FileFacts(True, {"size": status.st_size if stat.S_ISREG(status.st_mode) else 0})
