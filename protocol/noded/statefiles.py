"""Calls of ours, which Ganeti's node daemon does not know: files of the master's state, many at a time.

Ganeti's calls cannot carry what is ours beside the job files, cannot remove a single job, and carry one file each.
Names of files are relative to the folder of data, and the same on all nodes.

Source: DESIGN sections 12 and 13.
"""

from typing import Final

import attrs

from common.shapes import Row
from protocol.noded.call import URGENT_S, NodeCall
from protocol.noded.contents import Content

# what the names of our calls begin with; no procedure of Ganeti does
PREFIX: Final = "gantry_"
# most files of one call, and most names of one reply
MOST_FILES: Final = 1000


@attrs.frozen
class StateFile(Row):
    """A file: `[name, content]`."""

    name: str
    content: Content


@attrs.frozen
class WriteStateFiles(NodeCall[None]):
    """Replace files; those of `submissions` are durable before any of the others is in place."""

    METHOD = "gantry_write_files"
    LIMIT_S = URGENT_S
    files: tuple[StateFile, ...]

    @property
    def carried_bytes(self) -> int:
        return sum(len(file.content.data) for file in self.files)


@attrs.frozen
class RemoveStateFiles(NodeCall[None]):
    """Remove files; those that are missing are no error."""

    METHOD = "gantry_remove_files"
    LIMIT_S = URGENT_S
    names: tuple[str, ...]
    # whether they are moved to a folder of their own below `lost+found` in the folder of data, each with its name
    keeps: bool = False


@attrs.frozen
class ReadStateFiles(NodeCall[tuple[Content | None, ...]]):
    """The contents of files, in this order; null: there is no such file."""

    METHOD = "gantry_read_files"
    LIMIT_S = URGENT_S
    names: tuple[str, ...]


@attrs.frozen
class ListStateFiles(NodeCall[tuple[str, ...]]):
    """The names of the files in a folder, or of the archive's folders, that come after this name.

    Those of `lost+found` are all that were set aside, with the names of their folders.

    They are sorted as strings, and at most `MOST_FILES`; the next call begins after the last one.
    """

    METHOD = "gantry_list_files"
    LIMIT_S = URGENT_S
    folder: str
    after: str
