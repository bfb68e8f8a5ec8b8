"""Calls of the kernel that fail for a while: a folder that cannot be synced, a content that the disk refuses."""

import errno
import os
import stat
from typing import Any

import attrs
import pytest


@attrs.define
class FailingFsync:
    """`os.fsync` fails so often, for folders or for files, and then works; says what was asked of it."""

    is_folder: bool
    failures_left: int
    number: int = errno.EIO
    # so many of these calls work before
    spared: int = 0
    # "folder" or "file", in the order of the calls
    calls: list[str] = attrs.Factory(list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FailingFsync":
        real = os.fsync

        def fsync(fd: int) -> None:
            is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
            self.calls.append("folder" if is_folder else "file")
            is_ours = is_folder is self.is_folder
            if is_ours and self.spared > 0:
                self.spared -= 1
            elif is_ours and self.failures_left > 0:
                self.failures_left -= 1
                raise OSError(self.number, os.strerror(self.number))
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)
        return self


def count_renames(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of `os.rename` from now on."""
    targets: list[str] = []
    real = os.rename

    def rename(old: Any, new: Any) -> None:
        targets.append(os.path.basename(new))
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    return targets
