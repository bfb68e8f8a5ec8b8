"""Files of the configuration, and facts about files.

Source: noded.md section 6.
"""

import grp
import os
import posixpath
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import attrs

from common.errors import InvalidRequest
from common.objects.ssconf import file_content
from common.shapes import JsonObject, OwnForm, Row
from common.wire import expected
from protocol.noded.call import FAST_S, Content, NodeCall


@attrs.frozen
class FileUpload(Row):
    """A file with its mode, owner and times."""

    # name as of `protocol.noded.files`
    file_name: str
    content: Content
    # as from stat: bits of the file's type may be set
    mode: int | None
    # names of a user and a group, despite the fields' names
    uid: str
    gid: str
    # seconds; both or none
    atime: float | None
    mtime: float | None


@attrs.frozen
class UploadFile(NodeCall[None]):
    """Replace a file of the closed list; the arguments travel in one list of their own."""

    METHOD = "upload_file"
    file: FileUpload

    @property
    def carried_bytes(self) -> int:
        return len(self.file.content.data)


@attrs.frozen
class UploadFileSingle(NodeCall[None]):
    """Replace a file of the closed list; WConfD sends config.data so."""

    METHOD = "upload_file_single"
    file_name: str
    content: Content
    mode: int | None
    uid: str
    gid: str
    atime: float | None
    mtime: float | None

    @classmethod
    def of(cls, file: FileUpload) -> Self:
        return cls(file.file_name, file.content, file.mode, file.uid, file.gid, file.atime, file.mtime)

    @property
    def carried_bytes(self) -> int:
        return len(self.content.data)

    @property
    def file(self) -> FileUpload:
        return FileUpload(self.file_name, self.content, self.mode, self.uid, self.gid, self.atime, self.mtime)


@attrs.frozen
class SsconfValue(OwnForm):
    """A value of ssconf: lines; a caller may also send them as one text."""

    lines: tuple[str, ...]

    @property
    def content(self) -> bytes:
        """The content of the file."""
        return file_content(self.lines)

    def to_wire(self) -> object:
        return list(self.lines)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        if isinstance(value, str):
            return cls(tuple(value.removesuffix("\n").split("\n")) if value else ())
        if isinstance(value, list) and all(isinstance(line, str) for line in value):
            return cls(tuple(value))
        raise expected("a string or a list of strings", value)


@attrs.frozen
class WriteSsconfFiles(NodeCall[None]):
    """Replace files of ssconf; those of other keys stay. WConfD allows 300 s."""

    METHOD = "write_ssconf_files"
    values: Mapping[str, SsconfValue]


@attrs.frozen
class FileFacts(Row):
    """`[exists, facts]`; the facts of a file are `{"size": bytes}`."""

    exists: bool
    facts: JsonObject | None


@attrs.frozen
class GetFileInfo(NodeCall[FileFacts]):
    METHOD = "get_file_info"
    LIMIT_S = FAST_S
    file_path: str


@attrs.frozen
class EtcHostsModify(NodeCall[None]):
    """Add a host to /etc/hosts, or remove it."""

    METHOD = "etc_hosts_modify"
    # add or remove
    mode: str
    name: str
    # null for remove
    ip: str | None


# Names of files on the wire.
#
# Theory. Nodes that share a machine keep their files below a root each, `/x/node1`, and cannot send their full paths to
# each other. There, names travel as `/###-VIRTUAL-PATH-###,` and the path below the sender's root; the receiver
# demands that prefix and puts its own root in front. `/etc/hosts` belongs to the machine and travels unchanged.
# Without a root, all names travel unchanged.
#
# Source: noded.md section 7.


PREFIX: Final = "/###-VIRTUAL-PATH-###,"
UNCHANGED: Final = frozenset({"/etc/hosts"})
ROOT_VARIABLE: Final = "GANETI_ROOTDIR"
HOST_VARIABLE: Final = "GANETI_HOSTNAME"


@attrs.frozen
class WireNames:
    """Converts paths of this node to names on the wire, and back."""

    # absolute and normal; None: names travel unchanged
    root: Path | None = None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """The root that Ganeti's variables name, if they do.

        Raises: InvalidRequest: only one of them is set, or the root is not an absolute path that ends in the host name.
        """
        root, host = environment.get(ROOT_VARIABLE), environment.get(HOST_VARIABLE)
        if not root and not host:
            return cls()
        if not root or not host:
            raise InvalidRequest(f"{ROOT_VARIABLE} and {HOST_VARIABLE} belong together; set both or none")
        if not _is_normal(root) or posixpath.basename(root) != host:
            raise InvalidRequest(f"{ROOT_VARIABLE} '{root}' must be an absolute path whose last part is '{host}'")
        return cls(Path(root))

    @classmethod
    def of_installation(cls, root: Path | None, environment: Mapping[str, str]) -> Self:
        """Those of an installation: the root of Ganeti's variables, else its private root, if it has one.

        Raises: InvalidRequest: as `of_environment`.
        """
        names = cls.of_environment(environment)
        return names if names.root is not None else cls(root)

    def to_wire(self, path: Path) -> str:
        """Raises: InvalidRequest: the path is not absolute, has '..' in it, or is not below the root."""
        name = str(path)
        _check_normal(name)
        if self.root is None or name in UNCHANGED:
            return name
        # by text: a comparison of copies asks for a name for each job
        root = str(self.root).rstrip("/")
        if not name.startswith(f"{root}/"):
            raise InvalidRequest(f"'{name}' is not below the root of this node, '{self.root}'")
        return f"{PREFIX}{name.removeprefix(root)}"

    def from_wire(self, name: str) -> Path:
        """The path on this node. It is absolute, has no '..' in it, and lies below the root, if there is one.

        Raises: InvalidRequest: the name is not absolute or normal, or lacks the prefix, or has one without a root here.
        """
        bare = name.removeprefix(PREFIX)
        _check_normal(bare)
        if self.root is None:
            if bare != name:
                raise InvalidRequest(f"'{name}' is the name of a virtual cluster, and this node is in none")
            return Path(bare)
        if name in UNCHANGED:
            return Path(name)
        if bare == name:
            raise InvalidRequest(f"'{name}' is not a virtual path; nodes with a root of their own want '{PREFIX}'")
        return self.root / bare.removeprefix("/")


def _check_normal(name: str) -> None:
    if not _is_normal(name):
        raise InvalidRequest(f"'{name}' must be an absolute path without '.', '..' or doubled slashes")


def _is_normal(name: str) -> bool:
    # normpath keeps two slashes at the beginning
    return name.startswith("/") and name[1:2] != "/" and posixpath.normpath(name) == name and "\0" not in name


# The owners that files on nodes can have: calls name users and groups, of the daemons only.
#
# Source: noded.md 6 and 9.


# users and groups of Ganeti's daemons; root's are also named by those that run as root
USERS: Final = frozenset(
    {"root", "gantry", "gnt-masterd", "gnt-confd", "gnt-wconfd", "gnt-luxid", "gnt-rapi", "gnt-noded"}
)
GROUPS: Final = frozenset({*USERS, "gnt-daemons", "gnt-admin"})
# for files of a user or group that is none of these, as in private installations; node daemons that do not know
# the name take the owner of the folder
_OURS: Final = "gantry"


def user_on_wire(name: str) -> str:
    """The user that a call names for a file of this user."""
    return name if name in USERS else _OURS


def group_on_wire(name: str) -> str:
    """The same for a group."""
    return name if name in GROUPS else _OURS


# Files of this node as they are sent to others: with mode, owner and times.
#
# Source: noded.md 6 and 8.


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
