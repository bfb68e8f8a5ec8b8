"""The guards on disk, in `ghosts.data`, beside `locks.data`.

Theory. Two files cannot be written as one, so the order decides. Before a change of the locks is written, the file
gets all guards that hold before it or after it; so no crash finds locks without their guards. After the change the file
may still have guards of owners that hold nothing any more. These are *void*: they are dropped when the file is read,
and are removed when the file is next written, at the latest when `locks.data` is made whole. An owner that takes locks
again has its void guards removed before. An owner that still holds locks, and has no guards any more, as they were
laid, has them removed before, too: what they stood for has ended. So a guard in the file counts exactly if its owner
holds locks on disk.

As long as there are no guards, nothing is ever written, nor is there a file.

Source: `protocol.wconfd.ghosts`; DESIGN section 14.
"""

from pathlib import Path
from typing import Final, Self

from common.durable.atomicfile import write_file
from common.durable.durably import durably
from common.errors import DamagedFile
from common.system.log import get_log
from daemons.wconfd.core.locks.guardrows import decode_guards, encode_guards
from daemons.wconfd.core.locks.guards import NO_GUARDS, Guards
from daemons.wconfd.core.locks.pending import LockState

_log: Final = get_log(__name__)


def read_guards(path: Path) -> Guards:
    """Read `ghosts.data`; without a file there are no guards.

    Raises:
        DamagedFile: with the path, the place, and what to do; it is never replaced by an empty file.
        OSError: the file cannot be read.
    """
    try:
        return decode_guards(path.read_bytes())
    except FileNotFoundError:
        return NO_GUARDS
    except DamagedFile as error:
        text = (
            f"'{path}': {error.message}; it says which locks must be kept although their owners died; restore it "
            f"from a backup, or, once no command of a job runs on any node, start without it: rm {path}"
        )
        raise DamagedFile(text, path=str(path), **error.fields) from error


class GuardFile:
    """Keeps the guards on disk; all methods but `load` are called by one thread at a time.

    Args:
        found: content of the file.
    """

    def __init__(self, path: Path, found: Guards) -> None:
        self._path = path
        self._on_disk = found

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises: as `read_guards`."""
        return cls(path, read_guards(path))

    @property
    def guards(self) -> Guards:
        """What is on disk, void guards included."""
        return self._on_disk

    def is_exactly(self, guards: Guards) -> bool:
        return self._on_disk == guards

    def prepare(self, before: LockState, after: LockState) -> None:
        """Make the guards durable that hold before or after a change, which is written next.

        Raises: OSError: this failed; the file has its old content.
        Durability: on return they survive a loss of power.
        Cost: nothing without guards; the whole file if they change.
        """
        if not self._on_disk and not after.guards:
            return
        wanted = after.guards.with_others_of(before.guards)
        for owner, _ in before.guards:
            if owner not in after.guards and after.table.modes_of(owner):
                wanted = wanted.without(owner)
        void = [owner for owner, _ in self._on_disk if owner not in wanted]
        are_all_there = all(self._on_disk.of(owner) == guarded for owner, guarded in wanted)
        if not are_all_there or any(after.table.modes_of(owner) for owner in void):
            self._write(wanted)

    def tidy(self, guards: Guards) -> None:
        """Remove the void guards. Raises, Durability: as `prepare`."""
        if self._on_disk != guards:
            self._write(guards)

    def _write(self, guards: Guards) -> None:
        durably(lambda: write_file(self._path, encode_guards(guards)))
        self._on_disk = guards
        _log.debug("guards.written", path=self._path, owners=len(guards))
