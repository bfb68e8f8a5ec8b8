"""Files of this node as they are sent to others: with mode, owner and times.

Source: noded.md 6 and 8.
"""

import grp
import os
import pwd
from pathlib import Path

from protocol.noded.contents import Content
from protocol.noded.fileowners import group_on_wire, user_on_wire
from protocol.noded.files import FileUpload


def read_upload(path: Path, name: str) -> FileUpload:
    """The upload of a file. Args: name: on the wire. Raises: OSError: it cannot be read."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        return upload_of(name, file.read(), status)


def upload_of(name: str, content: bytes, status: os.stat_result) -> FileUpload:
    """The upload of this content, with mode, owner and times of a file."""
    return FileUpload(
        name,
        Content(content),
        status.st_mode,
        user_on_wire(_user(status.st_uid)),
        group_on_wire(_group(status.st_gid)),
        status.st_atime,
        status.st_mtime,
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
