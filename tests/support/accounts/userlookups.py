"""A machine that cannot look up its users at the moment."""

import errno
import grp
import os
import pwd

import pytest


def without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look-up fail for want of descriptors; Python reports a name that does not exist in the same way."""

    def look_up(_: object) -> object:
        raise KeyError("not found")

    def open_file(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    for module, name in ((pwd, "getpwnam"), (pwd, "getpwuid"), (grp, "getgrnam")):
        monkeypatch.setattr(module, name, look_up)
    monkeypatch.setattr(os, "open", open_file)
