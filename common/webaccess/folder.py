"""The folder of the users file and the tokens file, and changes of files in it.

The folder's own lock is held while a file is read, changed and replaced, so that of two editors none undoes what the
other did. Root acts as the folder's owner, so that nothing in the folder can lead it astray.

Source: rapi.md section 1; common/nodes/joining.py.
"""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from common.durable.atomicfile import FileWrite, write_files
from common.durable.durably import durably
from common.durable.folders import locked_folder, sync_folders
from common.errors import Conflict, DamagedFile
from common.paths import Paths
from common.system.accounts import as_owner_of, check_owner

_FOLDER_MODE: Final = 0o750
_ACT: Final = "say who calls over HTTP"
# bound on what is read: thousands of users and tokens
MOST_BYTES: Final = 4 * 2**20


class AccessFolder:
    def __init__(self, paths: Paths) -> None:
        self._data = paths.data
        self.path = paths.rapi
        self.users = paths.rapi_users
        self.tokens = paths.rapi_tokens

    def make(self) -> None:
        """Make the folder, if it is missing. Raises: Denied: this user may not. OSError."""
        if self.path.is_dir():
            return
        check_owner(self._data, _ACT)
        with as_owner_of(self._data):
            self.path.mkdir(_FOLDER_MODE, exist_ok=True)
            self.path.chmod(_FOLDER_MODE)
            durably(lambda: sync_folders([self._data]))

    def change(self, path: Path, change: Callable[[bytes | None], bytes], mode: int) -> None:
        """Replace a file by what `change` makes of it, alone.

        Args:
            change: gets None if there is no such file; what it raises is raised here, and nothing changes.
            mode: of a new file; an old one keeps its own. Where the folder hands its group down, that may read, too.
        Raises:
            Denied: this user is neither the folder's owner nor root.
            DamagedFile: the file is too large to be one of ours. Conflict: it is a link. OSError: it is as it was.
        Durability: on return the change survives a loss of power.
        """
        self.make()
        check_owner(self.path, _ACT)
        with as_owner_of(self.path), locked_folder(self.path):
            before = read_bounded(path)
            after = change(before)
            if after != before:
                write = FileWrite(path, after, _mode_of(path, mode) | group_right(self.path))
                durably(lambda: write_files([write]))


def group_right(folder: Path) -> int:
    """The mode bit by which the group of a folder may read a file in it, if the folder hands its group down; else 0.

    The package has given it to a rapid with a user of its own. Raises: OSError.
    """
    return stat.S_IRGRP if folder.stat().st_mode & stat.S_ISGID else 0


def read_bounded(path: Path) -> bytes | None:
    """The content of a file; None: there is none. Raises: DamagedFile: it is too large. OSError."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > MOST_BYTES:
        raise DamagedFile(f"'{path}' has more than {MOST_BYTES} bytes; remove what does not belong there")
    return content


def _mode_of(path: Path, mode: int) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return mode
    if not stat.S_ISREG(status.st_mode):
        raise Conflict(f"'{path}' is not a file but a link or a folder; put a file in its place")
    return stat.S_IMODE(status.st_mode)
