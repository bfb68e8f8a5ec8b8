"""What the launcher knows of its commands: a file for each, named by the pid of its supervisor.

The files lie in a folder that only root may enter, in memory. They let a restarted launcher find the supervisors that
live on, and let a command be found by the livelock that its supervisor holds. A supervisor writes its file before it
makes the command's group, and removes it after the group; a file of a dead supervisor names a group to be emptied.

Source: DESIGN sections 5 and 16.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.commands.cgroups import ControlGroup, Way
from common.errors import GantryError
from common.system.log import get_log
from common.system.processes import Process, is_living
from common.wire import structure, unstructure

_MODE: Final = 0o700
_log: Final = get_log(__name__)


@attrs.frozen
class Record:
    """A command, or one that is being started."""

    pid: int
    # of the supervisor, as in `Process`
    started_at: int
    # of the livelock that the supervisor holds
    device: int
    inode: int
    # control group, which may not exist yet, or not any more
    way: Way
    folder: str

    @property
    def supervisor(self) -> Process:
        return Process(self.pid, self.started_at)

    @property
    def group(self) -> ControlGroup:
        return ControlGroup(self.way, self.folder)

    @property
    def is_supervised(self) -> bool:
        """Whether the supervisor lives."""
        return is_living(self.supervisor)


class LaunchRecords:
    """The folder of the files. Raises: OSError: it cannot be made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(_MODE, exist_ok=True)
        folder.chmod(_MODE)

    def write(self, record: Record) -> None:
        """Raises: OSError."""
        temp = self._folder / f".{record.pid}"
        temp.write_bytes(orjson.dumps(unstructure(record)))
        temp.rename(self._path(record.pid))

    def remove(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            self._path(pid).unlink()

    def read(self, pid: int) -> Record | None:
        """The record of this supervisor; None: there is none."""
        return self._read(self._path(pid))

    def all(self) -> Mapping[int, Record]:
        """All records, by the pids of their supervisors. Raises: OSError."""
        found = (self._read(path) for path in self._folder.iterdir() if path.name.isdigit())
        return {record.pid: record for record in found if record is not None}

    def _read(self, path: Path) -> Record | None:
        try:
            return structure(orjson.loads(path.read_bytes()), Record)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, GantryError) as error:
            _log.error("record.unreadable", path=path, reason=error, effect="its command cannot be found here")
            return None

    def _path(self, pid: int) -> Path:
        return self._folder / str(pid)
