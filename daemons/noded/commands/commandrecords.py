"""The records of commands on this node, as files.

Theory. All records of a key lie side by side: `KEY.start`, `KEY.live`, `KEY.end`, `KEY.void`, `KEY.gone`. All but
`KEY.live` are made whole and put in place by a rename. `KEY.live` is the lock file; it is empty until its holder writes
that it has begun. It is never forced to the disk: after a loss of power the key is judged without it. Outputs lie
below, in a folder for each key. Nobody but the daemons' user may read them: a command's words can be secrets; of the
words themselves only a digest is kept.

`daemons.noded.core.commandphases` says what the records mean.

Source: DESIGN section 13.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs
import orjson

from common.commands.spec import CommandOutcome, CommandSpec
from common.durable.atomicfile import FileWrite
from common.errors import DamagedFile, InvalidRequest
from common.jsontext import ascii_json
from common.shapes import Lenient
from common.system.livelock import Life, probe
from common.wire import structure, unstructure
from daemons.noded.core.commandphases import AcceptedStart, Records
from daemons.noded.files.places import make_folder
from protocol.noded.statefiles import is_command_key

T = TypeVar("T")
START: Final = "start"
LIVE: Final = "live"
END: Final = "end"
VOID: Final = "void"
GONE: Final = "gone"
# names of its two streams, see `common.commands.output`
OUTPUT: Final = "out"
ERRORS: Final = "err"
_KINDS: Final = (START, LIVE, END, VOID, GONE)
_FOLDER_MODE: Final = 0o700
_MODE: Final = 0o600


@attrs.frozen(kw_only=True)
class StartRecord(Lenient):
    """A start that was taken."""

    digest: str
    boot: str
    output_base: int = 0
    error_base: int = 0


@attrs.frozen(kw_only=True)
class BegunRecord(Lenient):
    """The runner of a command, and when it began."""

    pid: int = 0
    # clock ticks from the machine's start to the runner's
    started_at: int = 0
    # seconds since 1970
    at: float = 0.0


@attrs.frozen(kw_only=True)
class EndRecord(Lenient):
    """The end of a command."""

    outcome: CommandOutcome
    # whether none of its processes was left
    is_over: bool
    begun_at: float = 0.0


@attrs.frozen(kw_only=True)
class KeyRecords:
    """The records of one key."""

    records: Records
    start: StartRecord | None = None
    begun: BegunRecord | None = None
    end: EndRecord | None = None


class CommandRecords:
    """The folder of records; the functions are for threads. Raises, all that read: OSError, DamagedFile: no verdict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs = folder / "output"

    def make_folders(self) -> None:
        """Raises: OSError. Durability: the folders survive a loss of power."""
        for folder in (self.folder, self.outputs):
            make_folder(folder, _FOLDER_MODE)

    def is_gone(self) -> bool:
        """Whether the folder was removed; an error of the disk does not tell."""
        try:
            os.stat(self.folder)
        except FileNotFoundError:
            return True
        except OSError:
            pass
        return False

    def path(self, key: str, kind: str) -> Path:
        return self.folder / f"{key}.{kind}"

    def output(self, key: str) -> Path:
        """The folder of a command's output, made when it has some."""
        return self.outputs / key

    def stream(self, key: str, name: str) -> Path:
        """The common path of a stream's pieces. Args: name: `OUTPUT` or `ERRORS`."""
        return self.output(key) / name

    def read(self, key: str) -> KeyRecords:
        """The records of a key. Cost: a few calls of the kernel, however many keys there are."""
        # in this order, see `commandphases`
        begun = self.read_begun(key)
        is_held = probe(str(self.path(key, LIVE))) is not Life.DEAD
        return self._read_others(key, is_held, begun)

    def read_under_lock(self, key: str, has_begun: bool) -> KeyRecords:
        """As `read`, for the process that holds the lock, and must not open its file."""
        return self._read_others(key, True, BegunRecord() if has_begun else None)

    def _read_others(self, key: str, is_held: bool, begun: BegunRecord | None) -> KeyRecords:
        end = self._read(key, END, EndRecord)
        start = self._read(key, START, StartRecord)
        records = Records(
            is_held=is_held,
            accepted=None if start is None else AcceptedStart(digest=start.digest, boot=start.boot),
            has_begun=begun is not None,
            has_end=end is not None,
            is_over=end is not None and end.is_over,
            is_void=self.path(key, VOID).exists(),
            is_forgotten=self.path(key, GONE).exists(),
        )
        return KeyRecords(records=records, start=start, begun=begun, end=end)

    def all_keys(self) -> Sequence[str]:
        """All keys with records, sorted as strings."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        split = (name.rpartition(".") for name in names)
        return sorted({key for key, _, kind in split if kind in _KINDS and is_command_key(key)})

    def write(self, key: str, kind: str, record: object) -> FileWrite:
        """The write that makes a record."""
        return FileWrite(self.path(key, kind), ascii_json(unstructure(record)), _MODE)

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[bool]:
        """Hold the lock of a key within the context; yields false if another process has it. Raises: OSError."""
        path = self.path(key, LIVE)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield _is_at(fd, path)
        except BlockingIOError:
            yield False
        finally:
            os.close(fd)

    def forget(self, key: str) -> None:
        """Replace the records of a key by a note, whose age begins now. Raises: OSError: some are left; repeat it."""
        gone = self.path(key, GONE)
        for kind in (END, VOID, START):
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.path(key, kind))
                os.rename(self.path(key, kind), gone)
                break
        self.remove_all_but_the_note(key)

    def remove_all_but_the_note(self, key: str) -> None:
        """Raises: OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.output(key))
        for kind in (START, VOID, END, LIVE):
            self.path(key, kind).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Raises: OSError: some are left."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder)

    def age_of(self, key: str, kind: str, now: float) -> float | None:
        """Seconds since a record was made; None: there is none. Raises: OSError."""
        try:
            return now - self.path(key, kind).stat().st_mtime
        except FileNotFoundError:
            return None

    def _read(self, key: str, kind: str, shape: type[T]) -> T | None:
        path = self.path(key, kind)
        try:
            return structure(orjson.loads(path.read_bytes()), shape, "record")
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, InvalidRequest) as error:
            raise DamagedFile(
                f"'{path}' is not a record of a command: {error}; remove it if the command does not run any more",
                file=str(path),
            ) from error

    def read_begun(self, key: str) -> BegunRecord | None:
        """Who runs the command, also where another record is damaged; None: it has not begun. Raises: OSError."""
        try:
            content = self.path(key, LIVE).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return structure(orjson.loads(content), BegunRecord, "record") if content else None
        except (orjson.JSONDecodeError, InvalidRequest):
            # cut off: it has begun, and nobody knows more
            return BegunRecord()


def digest_of_command(spec: CommandSpec) -> str:
    """Equal for equal commands, and tells nothing of their words."""
    # whoever the job belongs to, the command is the same
    spec = attrs.evolve(spec, submitter=None)
    return hashlib.sha256(orjson.dumps(unstructure(spec), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_at(fd: int, path: Path) -> bool:
    """Whether this open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
