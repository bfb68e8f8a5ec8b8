"""The system calls of a process pass through a gate, which may count them, fail them, or write them down.

Theory. All that the daemons keep goes through Python's `os` and `socket`. So their functions are replaced by ones that
ask a gate, once, before anything of ours is imported: trio keeps the methods of sockets that it finds. A process
that is forked inherits the functions and the gate. What goes another way (`open()`, which writes in C) is shown to
the gate as well, as a call by the name of `open`.

Without a gate, and for what lies outside of the installation, everything is as ever.
"""

import builtins
import functools
import io
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import attrs

P = ParamSpec("P")
R = TypeVar("R")
SENDS: Final = ("send", "sendall", "sendmsg")
PAIR: Final = "pair"
# by name in `os` -> by the name that the gate sees
_OS_CALLS: Final = {
    "open": "open",
    "write": "write",
    "pwrite": "write",
    "fsync": "fsync",
    "fdatasync": "fsync",
    "rename": "rename",
    "replace": "rename",
    "unlink": "unlink",
    "remove": "unlink",
    "link": "link",
    "symlink": "link",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
    "ftruncate": "truncate",
    "truncate": "truncate",
    "posix_fallocate": "truncate",
}
CALLS: Final = (*dict.fromkeys(_OS_CALLS.values()), "send", "fork")
_BY_DESCRIPTOR: Final = frozenset(("write", "pwrite", "fsync", "fdatasync", "ftruncate", "posix_fallocate"))


@attrs.frozen
class SystemCall:
    """A call that is about to be made."""

    # one of CALLS
    name: str
    # of the Python function
    function: str
    # what it is about: an absolute path, or a socket's peer
    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    original: Callable[..., Any]

    def make(self) -> Any:
        return self.original(*self.args, **self.kwargs)


class Gate(Protocol):
    """Whoever decides what becomes of system calls."""

    # of the installation; nothing outside of it is shown
    root: str

    def passes(self, call: SystemCall) -> Any:
        """Make the call, or not; returns or raises what the caller gets."""


_gate: Gate | None = None
# bare, for gates
bare_open: Final = os.open
bare_write: Final = os.write


def set_gate(gate: Gate | None) -> None:
    """From now on this process, and those it forks, go through this gate."""
    global _gate
    _gate = gate


def wrap_system_calls() -> None:
    """Replace the functions; before trio is imported, and once."""
    for function, name in _OS_CALLS.items():
        setattr(os, function, _wrapped_os(function, name, getattr(os, function)))
    for function in SENDS:
        setattr(socket.socket, function, _wrapped_send(function, getattr(socket.socket, function)))
    os.fork = _wrapped_fork(os.fork)
    opened = _wrapped_open(io.open)
    io.open = builtins.open = opened
    # imported here: with the functions that are replaced above
    from common.commands.cgroups import ControlGroup

    ControlGroup.fork = _wrapped_fork(ControlGroup.fork)  # type: ignore[method-assign]


def _wrapped_os(function: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        gate = _gate
        if gate is None:
            return original(*args, **kwargs)
        path = _path_of(function, args, kwargs)
        if path is not None and path.startswith("socket:") and function == "write":
            return gate.passes(SystemCall("send", function, path, args, kwargs, original))
        if path is None or not path.startswith(gate.root):
            return original(*args, **kwargs)
        return gate.passes(SystemCall(name, function, path, args, kwargs, original))

    return call


def _wrapped_send(function: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: socket.socket, *args: Any, **kwargs: Any) -> Any:
        gate = _gate
        if gate is None or self.family != socket.AF_UNIX or self.type != socket.SOCK_STREAM:
            return original(self, *args, **kwargs)
        return gate.passes(SystemCall("send", function, f"socket {_ends(self)}", (self, *args), kwargs, original))

    return call


def _ends(sock: socket.socket) -> str:
    """Which socket it is; a pair has no names."""
    try:
        return str(sock.getsockname() or sock.getpeername() or PAIR)
    except OSError:
        return "closed"


def _wrapped_fork(original: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(original)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _gate is None:
            return original(*args, **kwargs)
        pid: R = _gate.passes(SystemCall("fork", "fork", "process", args, kwargs, original))
        return pid

    return call


def _wrapped_open(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(file: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate
        if gate is None or not isinstance(file, str | os.PathLike) or not os.fspath(file).startswith(gate.root):
            return original(file, *args, **kwargs)
        return gate.passes(SystemCall("open", "io.open", os.fspath(file), (file, *args), kwargs, original))

    return call


def _path_of(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    first = args[0]
    if function in _BY_DESCRIPTOR or isinstance(first, int):
        try:
            return os.readlink(f"/proc/self/fd/{first}")
        except OSError:
            return None
    path = os.fsdecode(first)
    if os.path.isabs(path):
        return path
    folder = kwargs.get("dir_fd")
    return os.path.join(os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}"), path)


def write_modes(call: SystemCall) -> bool:
    """Whether a call of `open()` may change the file."""
    mode = call.args[1] if len(call.args) > 1 else call.kwargs.get("mode", "r")
    return any(letter in mode for letter in "wax+")


def files_under(root: Path) -> Iterator[Path]:
    """All files of an installation's data, in order."""
    return (path for path in sorted(root.rglob("*")) if path.is_file())
