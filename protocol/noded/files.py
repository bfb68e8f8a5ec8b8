"""Files of the configuration, and facts about files.

Source: noded.md section 6.
"""

from collections.abc import Mapping
from typing import Self

import attrs

from common.objects.ssconf import file_content
from common.shapehooks import expected
from common.shapes import JsonObject, OwnForm, Row
from protocol.noded.call import FAST_S, NodeCall
from protocol.noded.contents import Content


@attrs.frozen
class FileUpload(Row):
    """A file with its mode, owner and times."""

    # name as of `protocol.noded.virtualpaths`
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
