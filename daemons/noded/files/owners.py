"""The owners of the files that noded writes.

Theory. luxid and wconfd read these files after this node has become the master. As root, noded gives files to the
owner of the folder they are in; as an ordinary user it can give nothing away, and is that owner. Callers name
Ganeti's users, which a Gantry need not have; a name that is not one of them is refused.

Source: noded.md 6 and 9.
"""

import os
from pathlib import Path

from common.errors import Denied
from common.system.accounts.users import group_named, user_named
from protocol.noded.fileowners import GROUPS, USERS

# user and group
Owner = tuple[int, int]


def owner_of_files_in(folder: Path) -> Owner | None:
    """The owner for a file in this folder; None: this process's user. Raises: OSError."""
    if os.geteuid() != 0:
        return None
    status = os.stat(folder)
    return status.st_uid, status.st_gid


def named_owner(user: str, group: str, folder: Path) -> Owner | None:
    """The owner that a caller names, or the folder's, where the machine does not know the names.

    Raises: Denied: this is not a user, or a group, of the daemons. Unavailable: users cannot be read now. OSError.
    """
    if user not in USERS:
        raise Denied(f"files cannot be given to the user '{user}'; known are {', '.join(sorted(USERS))}")
    if group not in GROUPS:
        raise Denied(f"files cannot be given to the group '{group}'; known are {', '.join(sorted(GROUPS))}")
    owner = owner_of_files_in(folder)
    if owner is None:
        return None
    found, found_group = user_named(user), group_named(group)
    return owner if found is None or found_group is None else (found.pw_uid, found_group.gr_gid)
