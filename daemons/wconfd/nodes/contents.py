"""The contents of the configuration that the other nodes get, as calls of node daemons.

Source: noded.md 6 and 8; wconfd.md 7.5 and 7.9.
"""

import os
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Final

import attrs

from common.objects.config import Config
from common.objects.ssconf import MAX_BYTES, file_content, ssconf_values
from daemons.wconfd.core.config.configstate import ConfigState
from daemons.wconfd.core.config.replicas.nodecopies import Part
from protocol.noded.call import NodeCall
from protocol.noded.files import SsconfValue, UploadFileSingle, WriteSsconfFiles
from protocol.noded.localfiles import upload_of


@attrs.frozen
class Numbered:
    """The call that brings a content to a node; of two contents of a part, the newer one has the higher number."""

    number: int
    call: NodeCall[None] = attrs.field(repr=False, eq=False)
    # contents of the files that the call makes, by their names on the wire
    files: Mapping[str, bytes] = attrs.field(factory=dict, repr=False, eq=False)


# beginning of the names of ssconf's files
SSCONF_PREFIX: Final = "ssconf_"
# parts that are files of their own, which wconfd replaces as a whole
BESIDE: Final = (Part.SCHEDULES, Part.RESOURCES)
# parts that only candidates get
FOR_CANDIDATES: Final = frozenset((Part.CONFIG, *BESIDE))
Contents = Mapping[Part, Numbered]
NOTHING: Final[Contents] = {}


class ContentMaker:
    """Makes the contents, and numbers those that differ from the ones before; for one thread at a time.

    Args:
        name: of `path`, the file of the configuration, on the wire.
        release: value of ssconf for the programs' release.
    """

    def __init__(self, path: Path, name: str, release: str) -> None:
        self._path = path
        self._name = name
        self._release = release
        # what makes a content differ
        self._keys: dict[Part, Hashable] = {}
        self._made: dict[Part, Numbered] = {}

    def make(self, state: ConfigState) -> Contents:
        """The contents of this state, with mode, owner and times of the file that is on this node.

        Raises: OSError: the file cannot be looked at.
        """
        status = os.stat(self._path)
        content = state.content
        # reading the file changes the other time
        self._note(
            Part.CONFIG,
            (content, status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns),
            UploadFileSingle.of(upload_of(self._name, content, status)),
            lambda: {self._name: content},
        )
        values = self._ssconf(state.config)
        for part in BESIDE:
            self._note_beside(part)
        self._note(Part.SSCONF, tuple(values.items()), WriteSsconfFiles(values), lambda: self._ssconf_files(values))
        return dict(self._made)

    def _note_beside(self, part: Part) -> None:
        """Note a file that lies beside that of the configuration, once it is there.

        Raises: OSError: it cannot be read.
        """
        try:
            with self._path.with_name(part.value).open("rb") as file:
                status, content = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            return
        name = f"{self._name.removesuffix(self._path.name)}{part.value}"
        self._note(
            part,
            (content, status.st_mode, status.st_uid, status.st_gid),
            UploadFileSingle.of(upload_of(name, content, status)),
            lambda: {name: content},
        )

    def _ssconf_files(self, values: Mapping[str, SsconfValue]) -> Mapping[str, bytes]:
        # beside the file of the configuration
        folder = self._name.removesuffix(self._path.name)
        return {f"{folder}{SSCONF_PREFIX}{key}": value.content for key, value in values.items()}

    def _note(self, part: Part, key: Hashable, call: NodeCall[None], files: Callable[[], Mapping[str, bytes]]) -> None:
        before = self._made.get(part)
        if before is None or self._keys[part] != key:
            self._keys[part] = key
            self._made[part] = Numbered(before.number + 1 if before else 1, call, files())

    def _ssconf(self, config: Config) -> Mapping[str, SsconfValue]:
        """The values; those that are too long, which this node's distribution logs, are left out: nodes refuse them."""
        lines = ssconf_values(config, release=self._release)
        return {key: SsconfValue(tuple(each)) for key, each in lines.items() if len(file_content(each)) <= MAX_BYTES}
