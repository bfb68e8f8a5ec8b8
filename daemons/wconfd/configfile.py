"""`config.data` itself: read once, then written only by this daemon.

Source: wconfd.md 7.5 and 7.7; DESIGN section 8.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

import orjson

from common.durable.atomicfile import read_note, write_file
from common.durable.durably import durably
from common.errors import DamagedFile, InvalidRequest, NotFound
from common.objects.codec import decode_config
from common.objects.config import Config
from common.system.stamps import Stamp, stamp_of
from daemons.wconfd.core.config.verify import find_problems

_MODE: Final = 0o640


class ForeignChange(OSError):
    """The file is not the one that this daemon has read or written."""


class ConfigFile:
    """The file and its identity; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # None: any file there is foreign
        self._identity: Stamp | None = None
        self._was_read = False
        # whether memory is older than a file that another program has put there
        self._is_ahead = False
        # content of the last write, until it is known whether the file has it
        self._unadopted: bytes | None = None
        # content that was read, until something was written, and the note that was read with it
        self.content = b""
        self.note = b""

    def read(self) -> Config:
        """Read and check the configuration; a sound file counts as ours from now on.

        Raises:
            NotFound: the file does not exist.
            DamagedFile: it is not a configuration, or an inconsistent one; the message has the
                place, the reason and what to do.
            OSError: it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                identity = stamp_of(os.fstat(file.fileno()))
                content = file.read()
                self.note = read_note(file.fileno())
        except FileNotFoundError:
            raise NotFound(
                f"there is no cluster configuration '{self.path}'; make a cluster with 'gnt-cluster init', "
                "or bring the file back from a backup or a master candidate",
                path=str(self.path),
            ) from None
        config = self._decode(content)
        if problems := find_problems(config):
            raise self._damaged("$", f"it is inconsistent: {'; '.join(problems)}")
        self._is_ahead = self._was_read and self._identity != identity
        self._was_read, self._identity, self.content, self._unadopted = True, identity, content, None
        return config

    def foreign_change(self) -> str | None:
        """What another program has done to the file, and what to do; None: it is unchanged since our last write."""
        try:
            self.check_ours()
        except (ForeignChange, OSError) as error:
            return str(error)
        return None

    def check_ours(self) -> None:
        """Raises: ForeignChange: another program has changed the file. OSError: that cannot be told now."""
        self._adopt()
        try:
            found = stamp_of(os.stat(self.path))
        except FileNotFoundError:
            raise ForeignChange(f"'{self.path}' was removed; {self._advice()}") from None
        if found != self._identity:
            raise ForeignChange(f"'{self.path}' was changed by another program; {self._advice()}")

    def write(self, content: bytes, note: bytes = b"") -> None:
        """Replace the file.

        Args:
            note: kept beside the content, where the file system can; other programs that replace the file drop it.

        Raises:
            ForeignChange: another program has changed the file; it is left alone.
            OSError: it could not be written; it has its old content.
        Durability: on return the content survives a loss of power.
        """
        self.check_ours()
        self.content = b""
        if self._is_ahead:
            # if this write fails, memory stays older than the file
            self._identity = None
        try:
            durably(lambda: write_file(self.path, content, mode=_MODE, note=note))
            self._is_ahead = False
        finally:
            self._unadopted = content
            # what cannot be read now, for want of a descriptor, is looked at before the next write
            with contextlib.suppress(OSError):
                self._adopt()

    def _advice(self) -> str:
        return (
            "nothing was written and nothing will be; put the right file there, and call reloadConfig or restart wconfd"
        )

    def _adopt(self) -> None:
        """Record the file's identity if it has the content of the last write, which may fail after its rename.

        Raises: OSError: the file cannot be read now.
        """
        if (content := self._unadopted) is None:
            return
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            identity = stamp_of(os.fstat(file.fileno()))
            if identity[3] == len(content) and file.read() == content:
                self._identity = identity
        self._unadopted = None

    def _decode(self, content: bytes) -> Config:
        try:
            return decode_config(orjson.loads(content))
        except orjson.JSONDecodeError as error:
            at = f"byte {len(error.doc[: error.pos].encode())} of {len(content)}"
            raise self._damaged(at, f"it is not JSON: {error.msg}") from error
        except InvalidRequest as error:
            place = error.message.rpartition(" @ ")[2]
            raise self._damaged(place, error.message) from error

    def _damaged(self, where: str, reason: str) -> DamagedFile:
        return DamagedFile(
            f"the cluster configuration '{self.path}' is damaged at {where}: {reason}; "
            f"restore it from a backup or a master candidate: 'cp BACKUP {self.path}'",
            path=str(self.path),
            where=where,
        )
