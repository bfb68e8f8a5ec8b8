"""Take up an installation: make its missing folders, and refuse places that other users could change.

Every daemon and every program that starts daemons calls this before it reads or writes files of an installation.

Source: DESIGN sections 4 and 11.
"""

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from common.settings import Settings
from common.system.accounts.trust import check_trusted

# umask for our files and sockets that have no explicit mode
UMASK: Final = 0o027
# there where systemd runs the system
_SYSTEMD: Final = Path("/run/systemd/system")
_WRITE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def take_up(settings: Settings) -> None:
    """Set the umask, refuse files that other users could have planted or could replace, and make missing folders.

    Raises:
        Denied: a folder, one above it, or the settings file belongs to another user or is writable by others;
            nothing was made.
        InvalidRequest: a socket's path is longer than the kernel takes.
        OSError: a folder cannot be made or looked at.
    """
    os.umask(UMASK)
    check_safe(settings)
    settings.paths.make_folders()
    _close_to_others(settings.paths.sockets, settings.access.socket_folder_mode)
    if settings.access.access(os.geteuid()).is_shared:
        _let_others_through(settings.paths.sockets)


def check_safe(settings: Settings) -> None:
    """Refuse files that other users could have planted or could replace. Raises: as `take_up`."""
    settings.paths.check_socket_paths()
    if settings.source is not None:
        check_trusted(Path(os.path.abspath(settings.source)))
    for folder in sorted(settings.paths.folders()):
        check_trusted(folder, frozenset(settings.access.gids), frozenset(settings.access.uids))


def _close_to_others(folder: Path, mode: int) -> None:
    """Remove the right to replace sockets unless the settings grant it: early versions granted it to the group."""
    status = folder.stat()
    unwanted = status.st_mode & _WRITE_BY_OTHERS & ~mode
    if unwanted and status.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(status.st_mode) & ~unwanted)


def _let_others_through(folder: Path) -> None:
    """Let users with a role reach the query socket; they cannot list the folder."""
    status = folder.stat()
    if status.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXGRP | stat.S_IXOTH)


def has_systemd(root: Path | None) -> bool:
    """Whether systemd starts the daemons. Args: root: None: the installation of the system."""
    return root is None and _SYSTEMD.is_dir()


def up_command(root: Path | None) -> str:
    """The command that starts the daemons. Args: root: None: the installation of the system."""
    if has_systemd(root):
        return "systemctl enable --now gantry.target"
    return "gantry up" if root is None else f"gantry --root {shlex.quote(str(root))} up"
