"""Files that are always whole: written beside their target, made durable, then renamed over it.

Theory. A rename replaces a file in one step, but it may reach the disk before the content does;
so the content is fsync'ed first, the rename second, and the folder, whose entry the rename is,
last. A batch pays the folder's fsync once, and nothing of it is renamed before all of it is
durable. Before the first fsync of a batch all its files are written and their way to the disk has
begun; so they share the journal's commits, and the batch takes about half the time.

Up to the first rename a failure means that nothing has changed. From then on everybody sees the new files, and an
fsync of a folder that fails takes nothing back: it is an outcome of its own, `NotYetDurable`, and all that is left
to do is to repeat that fsync (`common.durable.durably`). A content is different: the kernel may forget what it could
not write, so after its fsync has failed all of it is written anew.

Plain `os` calls throughout: this is the hottest path of a submission.
"""

import contextlib
import os
import re
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

_FOLDER_MODE: Final = 0o750
# descriptors held open at once while a batch is made durable
_CHUNK: Final = 256
# what `stage_files` calls them
_TEMP: Final = re.compile(r"(.+)-[0-9a-f]{12}\.tmp", re.ASCII | re.DOTALL)
_NOTE: Final = "user.gantry"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@attrs.frozen
class FileWrite:
    path: Path
    content: bytes
    # exactly this, whatever the umask
    mode: int = 0o600
    # something small that comes and goes with the content and is no part of it, where the file system keeps that
    note: bytes = b""
    # in its place, durably, before any file of the same call that does not precede the others
    precedes: bool = False


class NotYetDurable(OSError):
    """The change is made and visible to all, but a loss of power may take it back: a folder could not be synced.

    Whoever gets this must not act as though nothing had happened, nor write anything again: call `repeat` until it
    returns, or let `common.durable.durably` do so.
    """

    def __init__(self, error: OSError, folders: Sequence[str]) -> None:
        super().__init__(error.errno, error.strerror, folders[0])
        # those whose fsync is missing
        self.folders = tuple(folders)

    def repeat(self) -> None:
        """Try the missing fsyncs once more.

        Raises: NotYetDurable: one failed again.
        Durability: on return the change survives a loss of power.
        """
        sync_folders(self.folders)


@attrs.frozen
class StagedFiles:
    """Contents that are durable beside their targets, and not in their place yet; put them there, or discard them."""

    _temps: tuple[tuple[str, FileWrite], ...]

    def put_in_place(self) -> None:
        """Rename all of them over their targets, in order, those that precede the others first.

        Raises:
            NotYetDurable: all are in their places.
            OSError: a rename failed, all but impossible by now, and those before it are done; or the folder of files
                that precede the others could not be synced, and none of the others is in its place.
        Durability: as `write_files`.
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
        sync_folders(os.path.dirname(temp) for temp, _ in others)

    def singly(self) -> "Iterator[StagedFiles]":
        """Each file for itself, in order: for a rename that must be durable before the next begins."""
        return (StagedFiles((each,)) for each in self._temps)

    def discard(self) -> None:
        """Remove what is not in its place."""
        _remove(temp for temp, _ in self._temps)


def stage_files(writes: Sequence[FileWrite]) -> StagedFiles:
    """Make contents durable in temporary files beside their targets.

    Of several writes to one path the last one counts. The temporary files are called
    `<name>-<random>.tmp`.

    Raises: OSError: a content could not be made durable; nothing is left of any.
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

    As `stage_files`, and then each is put in its place.

    Raises:
        NotYetDurable: all files are replaced, and only the fsync of a folder is to be repeated.
        OSError: if a content could not be made durable, no file has changed. If a rename failed (all but
            impossible by then), those before it have.
    Durability: on return everything survives a loss of power. After a crash in between each
        file has its old or its new content; temporary files may be left behind.
    """
    if writes:
        stage_files(writes).put_in_place()


def write_file(path: Path, content: bytes, *, mode: int = 0o600, note: bytes = b"") -> None:
    """`write_files` for one file."""
    write_files([FileWrite(path, content, mode, note)])


def read_note(descriptor: int) -> bytes:
    """The note that was written with the content of this file; empty if there is none."""
    try:
        return os.getxattr(descriptor, _NOTE)
    except OSError:
        return b""


def remove_leftovers(folder: Path, is_ours: Callable[[str], bool]) -> list[str]:
    """Remove the temporary files of writes that a crash has cut off.

    Args:
        is_ours: whether nobody but the caller writes a file of this name, so that none is being written.
    Returns: the names of the files that were to be written.
    Raises: OSError: the folder cannot be read.
    """
    left = [(entry, match[1]) for entry in os.listdir(folder) if (match := _TEMP.fullmatch(entry))]
    ours = [(entry, name) for entry, name in left if is_ours(name)]
    _remove(os.path.join(folder, entry) for entry, _ in ours)
    return [name for _, name in ours]


def remove_file(path: Path) -> None:
    """Remove a file; it is no error if there is none.

    Raises:
        NotYetDurable: it is gone.
        OSError: it is there.
    Durability: on return it does not come back after a loss of power, whoever has removed it.
    """
    remove_files([path])


def remove_files(paths: Iterable[Path]) -> None:
    """`remove_file` for several, in order, with one fsync of each folder. Raises: as there, of the first that fails."""
    folders: dict[str, None] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        folders[os.path.dirname(path)] = None
    # one that is not there has nothing to bring back
    sync_folders(folder for folder in folders if os.path.isdir(folder or "."))


def move_files(moves: Sequence[tuple[Path, Path]]) -> list[Path]:
    """Rename each (source, target), making folders of targets as needed (0750).

    A folder is durable before anything is moved into it: a file system that does not order such changes could
    lose the folder, and with it what is in its old place no more.

    Returns: the sources that are not there; the others have been moved.
    Raises:
        NotYetDurable: all are done.
        OSError: the moves before the failing one are done, and durable unless the folders cannot be synced either;
            those after it are not done.
    Durability: on return the moves survive a loss of power.
    """
    _make_folders(dict.fromkeys(os.path.dirname(target) for _, target in moves))
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
    """False: there is nothing to move. Raises: OSError."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):
            raise
        return False
    return True


def sync_folders(folders: Iterable[str | Path]) -> None:
    """Make durable what was renamed, made or removed in these folders so far, by whomever.

    Raises: NotYetDurable: it names this folder and those after it.
    """
    left = [str(folder) or "." for folder in dict.fromkeys(folders)]
    try:
        while left:
            _sync_folder(left[0])
            del left[0]
    except OSError as error:
        raise NotYetDurable(error, left) from error


def _rename_durably(temps: Iterable[tuple[str, FileWrite]]) -> None:
    for temp, write in temps:
        os.rename(temp, write.path)
    try:
        sync_folders(os.path.dirname(temp) for temp, _ in temps)
    except NotYetDurable as error:
        # what they were to precede has not happened: for the caller the whole has failed
        raise OSError(error.errno, error.strerror, error.filename) from error


def _chunk_size() -> int:
    """How many files of a batch may be open at once: a process that may have but few descriptors needs others, too."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _CHUNK if soft < 0 else max(1, min(_CHUNK, soft // 8))


def _make_durable(temps: Sequence[tuple[str, FileWrite]]) -> None:
    descriptors: list[int] = []
    try:
        for temp, write in temps:
            descriptors.append(descriptor := os.open(temp, _CREATE, write.mode))
            _write_all(descriptor, write.content)
            if write.mode & 0o077:
                os.fchmod(descriptor, write.mode)
            if write.note:
                # not every file system keeps notes, or has room for one
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, _NOTE, write.note)
        if len(descriptors) > 1:
            for descriptor in descriptors:
                # starts the writing and does not wait: blocks are given to all files in one go, and one
                # commit of the journal serves many of the following fsyncs
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in descriptors:
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    # a short write is rare (a signal, a disk that is just getting full), the error comes with the next one
    while written < len(content):
        written += os.write(descriptor, memoryview(content)[written:])


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _make_folders(folders: Iterable[str]) -> None:
    """Make the folders, and those above them, durably. Raises: OSError: one of them may be missing after a crash."""
    parents: dict[str, None] = {}
    for folder in folders:
        missing: list[str] = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        # one that is there already, too: who made it may have died before it was durable
        for path in reversed(missing or [folder]):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _FOLDER_MODE)
            parents[os.path.dirname(path)] = None
    try:
        sync_folders(parents)
    except NotYetDurable as error:
        # nothing was moved, so it is an error like any other
        raise OSError(error.errno, error.strerror, error.filename) from error


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
