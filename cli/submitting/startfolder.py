"""The folder in which a command starts when no `--cwd` is given: the caller's, if the command's user can enter it.

Without a launcher commands of root run as the user of the daemons, who cannot enter /root; a first job should not fail
for that.
"""

import os
import stat
from pathlib import Path
from typing import Final

from cli import context
from cli.screen import remark

_ELSE: Final = Path("/")


def start_folder(user: str | None) -> Path:
    """The folder, absolute. Args: user: `--user`, as whom the command runs; None: as the daemons decide."""
    here = Path.cwd()
    if os.geteuid() or user is not None:
        return here
    paths = context.paths()
    if paths.launcher_socket.exists():
        # commands of root run as root
        return here
    try:
        owner = paths.data.stat().st_uid
    except OSError:
        # luxid will say what is wrong
        return here
    if owner == 0 or all(_can_enter(owner, folder) for folder in (here, *here.parents)):
        return here
    remark(
        f"the command starts in '{_ELSE}': the user of the daemons cannot enter '{here}'; --cwd names another folder"
    )
    return _ELSE


def _can_enter(uid: int, folder: Path) -> bool:
    """Whether the mode lets the user in, not by a group."""
    found = folder.stat()
    return bool(found.st_mode & (stat.S_IXUSR if found.st_uid == uid else stat.S_IXOTH))
