"""Files that are always whole: written beside their target, made durable, then renamed over it.

Theory. A rename replaces a file in one step, but it may reach the disk before the content does.
Therefore the content is fsync'ed first, the rename comes second, and the folder, which holds the
entry, is fsync'ed last. A batch pays for the folder's fsync once, and none of its files is renamed
before all contents are durable. Before its first fsync a batch writes all files and starts their
writeback; so they share the journal's commits, and the batch takes about half the time.

A failure before the first rename means that nothing has changed. After it every process sees the new files, and a
failed fsync of a folder takes nothing back: that is an outcome of its own (`common.durable.folders`). A content is
different: the kernel may forget what it failed to write, so after a failed fsync of a content all of it is written
again.

The module uses plain `os` calls, because it is the hottest path of a submission.
"""

import contextlib
import os
import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.durable.folders import NotYetDurable, make_folders, sync_folders

# descriptors that are open at once while a batch is made durable
_CHUNK: Final = 256
# names of the temporary files of `stage_files`
_TEMP: Final = re.compile(r"(.+)-[0-9a-f]{12}\.tmp", re.ASCII | re.DOTALL)
_NOTE: Final = "user.gantry"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@attrs.frozen
class FileWrite:
    path: Path
    content: bytes
    # exact mode, independent of the umask
    mode: int = 0o600
    # small text beside the content, replaced with it; lost where the file system does not keep attributes
    note: bytes = b""
    # whether it must be in place, durably, before the files of the same call that do not precede
    precedes: bool = False
    # user and group; None: those of this process
    owner: tuple[int, int] | None = None
    # times of last access and change, in seconds since the epoch; None: now
    times: tuple[float, float] | None = None


@attrs.frozen
class StagedFiles:
    """Contents that are durable beside their targets; put them in place, or discard them."""

    _temps: tuple[tuple[str, FileWrite], ...]

    def put_in_place(self) -> None:
        """Rename all of them over their targets, in order; files that precede the others come first.

        Raises:
            NotYetDurable: all files are in place.
            OSError: a rename failed (nearly impossible by now), and the renames before it are done; or the folder
                of the preceding files could not be synced, and none of the other files is in place.
        Durability: as `write_files`.
        """
        self.rename()
        sync_folders(os.path.dirname(temp) for temp, write in self._temps if not write.precedes)

    def rename(self) -> None:
        """`put_in_place` without its last fsync: a loss of power may bring the old files back, each of them whole.

        Raises: OSError: as there.
        """
        first = [each for each in self._temps if each[1].precedes]
        others = [each for each in self._temps if not each[1].precedes] if first else self._temps
        try:
            if first:
                _rename_durably(first)
            for temp, write in others:
                os.rename(temp, write.path)
        except BaseException:
            self.discard()
            raise

    def singly(self) -> "Iterator[StagedFiles]":
        """Each file alone, in order: for renames of which each must be durable before the next begins."""
        return (StagedFiles((each,)) for each in self._temps)

    def discard(self) -> None:
        """Remove the temporary files that are not in place yet."""
        _remove(temp for temp, _ in self._temps)


def stage_files(writes: Sequence[FileWrite]) -> StagedFiles:
    """Make contents durable in temporary files beside their targets.

    Of several writes to one path the last one wins. The temporary files are named
    `<name>-<random>.tmp`.

    Raises: OSError: a content could not be made durable; all temporary files are removed.
    """
    wanted = {write.path: write for write in writes}
    suffix = f"-{os.urandom(6).hex()}.tmp"
    temps = tuple((f"{path}{suffix}", write) for path, write in wanted.items())
    try:
        size = _chunk_size()
        for start in range(0, len(temps), size):
            _make_durable(temps[start : start + size])
    except BaseException:
        _remove(temp for temp, _ in temps)
        raise
    return StagedFiles(temps)


def write_files(writes: Sequence[FileWrite]) -> None:
    """Replace all these files, each of them whole or not at all.

    Stages them as `stage_files` does, then puts each in place.

    Raises:
        NotYetDurable: all files are replaced; only the fsync of a folder is missing.
        OSError: a content could not be made durable, and no file has changed; or a rename failed (nearly
            impossible by then), and the files before it are replaced.
    Durability: on return everything survives a loss of power. After a crash in between each
        file has its old or its new content; temporary files may be left behind.
    """
    if writes:
        stage_files(writes).put_in_place()


def write_file(path: Path, content: bytes, *, mode: int = 0o600, note: bytes = b"") -> None:
    """`write_files` for one file."""
    write_files([FileWrite(path, content, mode, note)])


def read_note(descriptor: int) -> bytes:
    """Return the note that was written with the content of this file; empty if there is none."""
    try:
        return os.getxattr(descriptor, _NOTE)
    except OSError:
        return b""


def remove_leftovers(folder: Path, is_ours: Callable[[str], bool], *, min_age_s: float = 0.0) -> list[str]:
    """Remove the temporary files of writes that a crash interrupted.

    Args:
        is_ours: whether only the caller writes files of this name, so that no such write is under way.
        min_age_s: age from which a file is removed; long, where others write files of these names as well.
    Returns: the names of the target files.
    Raises: OSError: the folder cannot be read.
    """
    left = [(entry, match[1]) for entry in os.listdir(folder) if (match := _TEMP.fullmatch(entry))]
    ours = [
        (entry, name) for entry, name in left if is_ours(name) and _is_older(os.path.join(folder, entry), min_age_s)
    ]
    _remove(os.path.join(folder, entry) for entry, _ in ours)
    return [name for _, name in ours]


def _is_older(path: str, age_s: float) -> bool:
    if not age_s:
        return True
    try:
        return os.stat(path).st_mtime < time.time() - age_s
    except OSError:
        # its writer has put it in place
        return False


def _rename_durably(temps: Iterable[tuple[str, FileWrite]]) -> None:
    for temp, write in temps:
        os.rename(temp, write.path)
    try:
        sync_folders(os.path.dirname(temp) for temp, _ in temps)
    except NotYetDurable as error:
        # the files that they precede are not in place: for the caller the whole call has failed
        raise OSError(error.errno, error.strerror, error.filename) from error


def _chunk_size() -> int:
    """Number of files of a batch open at once; a process with few descriptors needs some of them for other work."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _CHUNK if soft < 0 else max(1, min(_CHUNK, soft // 8))


def _make_durable(temps: Sequence[tuple[str, FileWrite]]) -> None:
    descriptors: list[int] = []
    try:
        for temp, write in temps:
            descriptors.append(descriptor := os.open(temp, _CREATE, write.mode))
            _write_all(descriptor, write.content)
            if write.owner is not None:
                os.fchown(descriptor, *write.owner)
            if write.mode & 0o077:
                os.fchmod(descriptor, write.mode)
            if write.note:
                # some file systems do not keep notes, or have no room for one
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, _NOTE, write.note)
            if write.times is not None:
                os.utime(descriptor, write.times)
        if len(descriptors) > 1:
            for descriptor in descriptors:
                # starts the writeback without waiting: the file system allocates blocks for all files in one go, and
                # one commit of its journal serves many of the following fsyncs
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in descriptors:
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    # a short write is rare (a signal, a disk that is getting full); the next write reports the error
    while written < len(content):
        written += os.write(descriptor, memoryview(content)[written:])


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


# Files that are moved or removed, durably.


def remove_file(path: Path) -> None:
    """Remove a file; a missing file is not an error.

    Raises:
        NotYetDurable: the file is gone.
        OSError: the file is still there.
    Durability: on return the removal survives a loss of power, even if another process removed the file.
    """
    remove_files([path])


def remove_files(paths: Iterable[Path]) -> None:
    """`remove_file` for several, in order, with one fsync of each folder. Raises: as there, for the first failure."""
    folders: dict[str, None] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        folders[os.path.dirname(path)] = None
    # a folder that is missing cannot bring a file back
    sync_folders(folder for folder in folders if os.path.isdir(folder or "."))


def move_files(moves: Sequence[tuple[Path, Path]]) -> list[Path]:
    """Rename each (source, target), and make missing folders of targets (0750).

    A new folder is durable before a file is moved into it: a file system that does not order such changes could
    lose the folder, together with the file that has left its old place.

    Returns: the sources that do not exist; the others have been moved.
    Raises:
        NotYetDurable: all moves are done.
        OSError: the moves before the failed one are done, and durable unless the folders cannot be synced either;
            the moves after it are not done.
    Durability: on return the moves survive a loss of power.
    """
    make_folders(dict.fromkeys(os.path.dirname(target) for _, target in moves))
    folders: list[str] = []
    missing: list[Path] = []
    try:
        for source, target in moves:
            if not _move(source, target):
                missing.append(source)
                continue
            folders += (os.path.dirname(target), os.path.dirname(source))
    except OSError:
        with contextlib.suppress(NotYetDurable):
            sync_folders(folders)
        raise
    sync_folders(folders)
    return missing


def _move(source: Path, target: Path) -> bool:
    """Return False if the source does not exist. Raises: OSError."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):
            raise
        return False
    return True
