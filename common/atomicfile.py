"""Files that are always whole: written beside their target, made durable, then renamed over it.

Theory. A rename replaces a file in one step, but it may reach the disk before the content does;
so the content is fsync'ed first, the rename second, and the folder, whose entry the rename is,
last. A batch pays the folder's fsync once, and nothing of it is renamed before all of it is
durable. Before the first fsync of a batch all its files are written and their way to the disk has
begun; so they share the journal's commits, and the batch takes about half the time.

Plain `os` calls throughout: this is the hottest path of a submission.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

_FOLDER_MODE: Final = 0o750
# descriptors held open at once while a batch is made durable
_CHUNK: Final = 256
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@attrs.frozen
class FileWrite:
    path: Path
    content: bytes
    # exactly this, whatever the umask
    mode: int = 0o600


@attrs.frozen
class StagedFiles:
    """Contents that are durable beside their targets, and not in their place yet; put them there, or discard them."""

    _temps: tuple[tuple[str, FileWrite], ...]

    def put_in_place(self, *, one_by_one: bool = False) -> None:
        """Rename all of them over their targets, in order.

        Args:
            one_by_one: each rename is durable before the next begins.
        Raises: OSError: all but impossible by now; some of the files may have changed.
        Durability: as `write_files`.
        """
        try:
            for temp, write in self._temps:
                os.rename(temp, write.path)
                if one_by_one:
                    _sync_folders([os.path.dirname(temp)])
        except BaseException:
            self.discard()
            raise
        if not one_by_one:
            _sync_folders(os.path.dirname(temp) for temp, _ in self._temps)

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
        for start in range(0, len(temps), _CHUNK):
            _make_durable(temps[start : start + _CHUNK])
    except BaseException:
        _remove(temp for temp, _ in temps)
        raise
    return StagedFiles(temps)


def write_files(writes: Sequence[FileWrite]) -> None:
    """Replace all these files, each of them whole or not at all.

    As `stage_files`, and then each is put in its place.

    Raises:
        OSError: if a content could not be made durable, no file has changed. If a rename or the
            fsync of a folder failed (both all but impossible by then), some may have.
    Durability: on return everything survives a loss of power. After a crash in between each
        file has its old or its new content; temporary files may be left behind.
    """
    if writes:
        stage_files(writes).put_in_place()


def write_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """`write_files` for one file."""
    write_files([FileWrite(path, content, mode)])


def remove_file(path: Path) -> None:
    """Remove a file; it is no error if there is none.

    Raises: OSError.
    Durability: on return it does not come back after a loss of power.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        _sync_folders([os.path.dirname(path)])


def move_files(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename each (source, target), making folders of targets as needed (0750).

    Raises:
        OSError: the moves before the failing one are done, and durable; those after it are not done.
    Durability: on return the moves survive a loss of power.
    """
    folders: list[str] = []
    made: set[str] = set()
    try:
        for source, target in moves:
            folder = os.path.dirname(target)
            if folder not in made:
                folders += _make_folders(folder)
                made.add(folder)
            os.rename(source, target)
            folders += (folder, os.path.dirname(source))
    finally:
        _sync_folders(folders)


def _make_durable(temps: Sequence[tuple[str, FileWrite]]) -> None:
    descriptors: list[int] = []
    try:
        for temp, write in temps:
            descriptors.append(descriptor := os.open(temp, _CREATE, write.mode))
            _write_all(descriptor, write.content)
            if write.mode & 0o077:
                os.fchmod(descriptor, write.mode)
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


def _make_folders(folder: str) -> Iterator[str]:
    """Make the folder and those above it; yields the parents, whose entries are new and need an fsync."""
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _FOLDER_MODE)
        yield os.path.dirname(path)


def _sync_folders(folders: Iterable[str]) -> None:
    for folder in dict.fromkeys(folders):
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
