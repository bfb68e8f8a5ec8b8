"""Disks that are small, full or unwritable; all of it needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FILLER = "filler"


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
    """Fill the file system of `folder` to the last byte, for the time being."""
    filler = folder / _FILLER
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (2**16, 4096, 1):
            _write_until_full(fd, bytes(size))
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


def _write_until_full(fd: int, piece: bytes) -> None:
    while True:
        try:
            os.write(fd, piece)
        except OSError:
            return


def _skip_unless_done(*command: str) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"only root may {command[0]}")
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"there is no program {command[0]!r} here")
    if done.returncode != 0:
        pytest.skip(f"cannot {command[0]} here: {done.stderr.strip()}")
