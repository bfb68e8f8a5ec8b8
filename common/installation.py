"""Take up an installation: make its missing folders, and refuse places that other users could change.

Every daemon and every program that starts daemons calls this before it reads or writes files of an installation.

Source: DESIGN sections 4 and 11.
"""

import json
import os
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.access import Grantee
from common.settings import AccessSettings, Settings
from common.system.accounts import check_trusted, check_trusted_tree, group_numbered, user_numbered

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
    if is_apart(settings):
        # they are the daemons' user's
        return
    settings.paths.make_folders()
    _close_to_others(settings.paths.sockets, settings.access.socket_folder_mode)
    if settings.access_table(os.geteuid()).is_shared:
        _let_others_through(settings.paths.sockets)


def is_apart(settings: Settings) -> bool:
    """Whether this is a daemon with a user of its own. Raises: Unavailable: users cannot be read now."""
    return os.geteuid() in settings.users_apart().values()


def check_safe(settings: Settings) -> None:
    """Refuse files that other users could have planted or could replace. Raises: as `take_up`."""
    paths, owners = settings.paths, settings.owners(os.geteuid())
    paths.check_socket_paths()
    if settings.source is not None:
        check_trusted(Path(os.path.abspath(settings.source)))
    # into the others a daemon with a user of its own may not look
    folders = (paths.data, paths.run, paths.log, paths.sockets) if is_apart(settings) else paths.folders()
    for folder in sorted(folders):
        check_trusted(folder, frozenset(settings.access.gids), owners | frozenset(settings.access.uids))


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


# The first rules of the launcher, made from the roles of an installation. They are root's from then on.
#
# Source: DESIGN sections 7 and 16; daemons/launcher/core/rules.py.


RULES_FILE: Final = Path("/etc/gantry/launcher.toml")
_HEADER: Final = """\
# Who may run commands of jobs as whom on this machine. gantry-launcher reads this file at each command; only root may
# write it. What is not listed is refused. To switch the launcher off: gantry cluster run-as-submitter --off

# the user whose daemons may call the launcher
callers = [{caller}]

# submitter, or "@group" = users as whom their jobs may run: a login, "@group", "self", or "*": everybody but root and
# the callers. Jobs of root, and jobs without an owner, are root's.
[run_as]
root = ["self", "*"]
"""


def first_rules(access: AccessSettings, caller: str) -> str:
    """The text of the rules: root as everybody, submitters as themselves, administrators as everybody, also root.

    Raises: Unavailable: users cannot be read now.
    """
    lines: dict[str, Sequence[str]] = {}
    for grantees, targets in _by_role(access).items():
        for name in filter(None, map(_name, grantees)):
            lines[name] = targets
    rows = (f"{json.dumps(name)} = {json.dumps(targets)}\n" for name, targets in lines.items() if name != "root")
    return _HEADER.format(caller=json.dumps(caller)) + "".join(rows)


def _by_role(access: AccessSettings) -> Mapping[tuple[Grantee, ...], Sequence[str]]:
    """The weaker roles first: the strongest role of a user counts."""
    return {(*access.submit, *access.operate): ["self"], access.admin: ["self", "*", "root"]}


def _name(grantee: Grantee) -> str | None:
    """The grantee as the rules name it; None: the number has no name."""
    if grantee.is_group:
        group = group_numbered(grantee.number)
        return None if group is None else f"@{group.gr_name}"
    user = user_numbered(grantee.number)
    return None if user is None else user.pw_name


# The folder with plug-in packages that stays when an upgrade replaces Gantry's own environment.
#
# Theory. What is in it acts with the rights of the daemons. So nobody but root and the daemons' user may be able to
# write to it, to a folder above it, or to anything in it; else it is refused, and the daemon does not start. It is
# looked through last: nothing in it takes the place of a module of Gantry, or of one that Gantry needs.
#
# A plug-in there is found by its entry points, as one that is installed beside Gantry (`common.opcodes.registry`).
#
# Source: DESIGN section 7.


def use_plugins(settings: Settings) -> None:
    """Let this program find the plug-ins of the folder that the settings name; without the folder there are none.

    Raises:
        Denied: another user could change it, or something in it; the message names the part, and what to do.
        OSError: it cannot be looked at.
    """
    folder = settings.plugins.folder
    if not folder or not Path(folder).is_dir():
        return
    check_trusted_tree(Path(folder), settings.owners(os.geteuid()))
    if folder not in sys.path:
        sys.path.append(folder)
