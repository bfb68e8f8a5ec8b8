"""Disks that are small, full or unwritable; all of it needs root."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.wait import wait_until

_FILLER = "filler"
_QUIET_ROUNDS = 5


@contextmanager
def small_disk(folder: Path, *, kilobytes: int = 2048) -> Iterator[Path]:
    """A file system of its own at `folder`; skips the test where it cannot be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    _skip_unless_done("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=755", "gantry-test", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


@contextmanager
def no_room(folder: Path) -> Iterator[None]:
    """Fill the file system of `folder` to the last byte, for the time being.

    A write that was on its way when it became full may give a page back when it is done.
    """
    filler = folder / _FILLER
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        quiet = itertools.count()
        wait_until(lambda: not _fill(fd) and next(quiet) == _QUIET_ROUNDS, what=f"'{folder}' is full and stays so")
        yield
    finally:
        os.close(fd)
        filler.unlink()


@contextmanager
def immutable(folder: Path) -> Iterator[None]:
    """Nobody, not even root, can make or remove a file in `folder`; skips where the file system cannot do that."""
    _skip_unless_done("chattr", "+i", str(folder))
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(folder)], check=True, capture_output=True)


def _fill(fd: int) -> int:
    """Bytes for which there was room."""
    return sum(_write_until_full(fd, bytes(size)) for size in (2**16, 4096, 1))


def _write_until_full(fd: int, piece: bytes) -> int:
    written = 0
    while True:
        try:
            written += os.write(fd, piece)
        except OSError:
            return written


def _skip_unless_done(*command: str) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"only root may {command[0]}")
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no program {command[0]!r} here")
    if done.returncode != 0:
        pytest.skip(f"cannot {command[0]} here: {done.stderr.strip()}")
