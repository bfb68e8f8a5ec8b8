"""One line an event: time, program, level, event name, then key=value.

`2026-03-01T12:00:00.412Z luxid info job.started job=27491 pid=311 waited_s=0.4`

All programs use the same keys, so that `grep job=27491` over all logs tells a job's life. A line is
appended with one write, so several processes may share a file.

Where systemd connects standard error to its journal, each record goes there as well, with fields of their own: so
`journalctl GANTRY_JOB=27491` tells the same, and `journalctl -u gantry-luxid -p warning` what is worth a look. The
journal may refuse or lose records, the file has them all.
"""

import contextlib
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Final

from common.printable import printable

# The journal of systemd: whether a stream of this process leads there, and records with fields of their own.
#
# Source: systemd.io, "Native Journal Protocol"; systemd.exec(5), "$JOURNAL_STREAM".


SOCKET: Final = "/run/systemd/journal/socket"
# prefix that gives a line on a stream of the journal the priority "error"
ERROR: Final = "<3>"
_LENGTH: Final = struct.Struct("<Q")


def is_journal(fd: int = 2) -> bool:
    """Whether what is written to this descriptor gets into the journal; by default, standard error."""
    with contextlib.suppress(OSError):
        status = os.fstat(fd)
        return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
    return False


class Journal:
    """A socket to the journal."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address or SOCKET
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, fields: Mapping[str, str]) -> bool:
        """Send one record; false: the journal is full, away, or refuses it. Never waits.

        Args: fields: names of capital letters, digits and underlines; `MESSAGE` is the text.
        """
        try:
            self._socket.sendto(record_of(fields), self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def record_of(fields: Mapping[str, str]) -> bytes:
    """The datagram of a record."""
    return b"".join(_field(name.encode(), value.encode("utf-8", "backslashreplace")) for name, value in fields.items())


def _field(name: bytes, value: bytes) -> bytes:
    if b"\n" not in value:
        return name + b"=" + value + b"\n"
    return name + b"\n" + _LENGTH.pack(len(value)) + value + b"\n"


_FIELDS: Final = "gantry_fields"
_SPECIAL: Final = frozenset(' "=\\')
_FILE_MODE: Final = 0o640
# priorities of syslog
_PRIORITIES: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Log:
    """The log of one module; a call below the configured level costs almost nothing."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """A state changed."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """The program is degraded but goes on; the fields say how, and what is tried next."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """The operator must act."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the traceback of the exception being handled, indented, on the following lines."""
        self._log(logging.ERROR, event, fields, sys.exception())

    def _log(self, level: int, event: str, fields: dict[str, object], error: BaseException | None = None) -> None:
        logger = self._logger
        if not logger.isEnabledFor(level):
            return
        exc_info = (type(error), error, error.__traceback__) if error is not None else None
        # made here, not by Logger.log, which would look for the caller's file and line
        record = logging.LogRecord(logger.name, level, "", 0, event, (), exc_info)
        setattr(record, _FIELDS, {**fields, **_SHARED.get()})
        logger.handle(record)


# fields of all lines of a task, and of those that it starts
_SHARED: Final[ContextVar[Mapping[str, object]]] = ContextVar("gantry_log_fields", default=MappingProxyType({}))


@contextlib.contextmanager
def shared_fields(**fields: object) -> Iterator[None]:
    """Give each line that is logged in this context these fields, after its own; tasks and threads begun here, too."""
    token = _SHARED.set({**_SHARED.get(), **fields})
    try:
        yield
    finally:
        _SHARED.reset(token)


def get_log(name: str) -> Log:
    return Log(name)


def set_up_logging(program: str, *, path: Path | None, debug: bool = False) -> None:
    """Send all logging of this process, also that of libraries, to one file, and to the journal if systemd runs us.

    Only `main` calls this; a second call replaces the first, as in a forked child.

    Args:
        path: file to append to, created with mode 0640; None: standard error.
    Raises:
        OSError: the file cannot be opened.
    """
    handlers: list[logging.Handler] = [_Appender(path) if path is not None else logging.StreamHandler()]
    if is_journal() and path is not None:
        handlers.append(_ToJournal())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, _Formatter)]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(_Formatter(program))
        root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.INFO)


def rename_program(program: str) -> None:
    """Log under another program name from now on, to the same file, as a forked child does."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Formatter):
            handler.formatter.program = program


def log_fds() -> frozenset[int]:
    """The descriptors of the log, for a forked child that closes all others."""
    own = (handler for handler in logging.getLogger().handlers if isinstance(handler, _Appender | _ToJournal))
    return frozenset(handler.fileno() for handler in own)


def reopen_log() -> None:
    """Open the log file again after it was moved away; if that fails, the old file stays in use."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Appender):
            handler.reopen()


def open_log(path: str | os.PathLike[str]) -> int:
    """Open a log file for appending; create it if it is missing, and do not follow a link.

    Raises: OSError: it cannot be opened; ELOOP: it is a link, whose target another user may have chosen.
    """
    return os.open(path, _OPEN, _FILE_MODE)


class _Appender(logging.Handler):
    """Appends each record to a file with one write."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = os.path.abspath(path)
        self._fd = self._open()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self._fd, (self.format(record) + "\n").encode("utf-8", "backslashreplace"))
        except Exception:
            self.handleError(record)

    def fileno(self) -> int:
        return self._fd

    def reopen(self) -> None:
        try:
            fresh = self._open()
        except OSError as error:
            get_log(__name__).error("log.not_reopened", path=self._path, error=error)
            return
        self.acquire()
        try:
            old, self._fd = self._fd, fresh
        finally:
            self.release()
        os.close(old)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        super().close()

    def _open(self) -> int:
        return open_log(self._path)


class _ToJournal(logging.Handler):
    """Sends each record to the journal: `GANTRY_EVENT` is its event, `GANTRY_JOB` and the like are its fields."""

    def __init__(self) -> None:
        super().__init__()
        self._journal = Journal()

    def emit(self, record: logging.LogRecord) -> None:
        formatter = self.formatter
        assert isinstance(formatter, _Formatter)
        fields: dict[str, object] = getattr(record, _FIELDS, {})
        own = {f"GANTRY_{key.upper()}": str(value) for key, value in fields.items() if key.isidentifier()}
        self._journal.send(
            {
                "MESSAGE": formatter.text_of(record),
                "PRIORITY": str(_PRIORITIES.get(record.levelno, 6)),
                "SYSLOG_IDENTIFIER": f"gantry-{formatter.program}",
                "GANTRY_EVENT": printable(record.getMessage()),
                **own,
            }
        )

    def fileno(self) -> int:
        return self._journal.fileno()

    def close(self) -> None:
        self._journal.close()
        super().close()


class _Formatter(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{at}.{int(record.msecs):03d}Z {self.program} {record.levelname.lower()} {self.text_of(record)}"

    def text_of(self, record: logging.LogRecord) -> str:
        """The record without time, program and level."""
        parts = [printable(record.getMessage())]
        fields: dict[str, object] = getattr(record, _FIELDS, {})
        parts += [f"{key}={format_value(value)}" for key, value in fields.items()]
        line = " ".join(parts)
        if record.exc_info:
            traceback = self.formatException(record.exc_info)
            line += "".join(f"\n  {printable(part)}" for part in traceback.splitlines())
        return line


def format_value(value: object) -> str:
    """A field's value as one word: quoted if necessary, control characters escaped."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if text and text.isprintable() and _SPECIAL.isdisjoint(text):
        return text
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'
