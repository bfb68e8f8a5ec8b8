"""A fork server that is broken in the way a test of luxid wants it.

    python -m tests.support.fakes.forkserver ROOT

`ROOT/fake` says how: it may `refuse` every start, have children that `die` before they have a
livelock, or that `vanish` after the go-ahead without having done anything.
"""

import array
import os
import signal
import socket
import sys
from pathlib import Path

from common.paths import Paths
from common.system.livelock import Livelock
from common.system.program import notify
from protocol.envelope import Call, read_message, success
from protocol.forkserver import REFUSAL, VERSION
from protocol.framing import Framer, pack


def main() -> None:
    root = Path(sys.argv[1])
    paths = Paths.under_root(root)
    paths.forkserver_socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(paths.forkserver_socket))
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    notify("READY=1")
    while True:
        control, _ = listener.accept()
        with control:
            _serve(control, root, paths)


def _serve(control: socket.socket, root: Path, paths: Paths) -> None:
    framer = Framer()
    fds: list[int] = []
    while True:
        received, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(4))
        if not received:
            return
        for _, _, content in ancillary:
            fds += array.array("i", content)
        for payload in framer.feed(received):
            call = read_message(payload)
            assert isinstance(call, Call)
            if call.notification:
                _start(call, fds.pop(0), root, paths)
            else:
                control.sendall(pack(success(call, VERSION)))


def _start(call: Call, fd: int, root: Path, paths: Paths) -> None:
    mode = (root / "fake").read_text()
    assert isinstance(call.params, list)
    with socket.socket(fileno=fd) as stream:
        if mode == "refuse":
            stream.sendall(pack(REFUSAL + b"no room for another process"))
        elif not os.fork():
            try:
                os.setsid()
                if mode != "die":
                    _vanish(stream, int(str(call.params[0])), paths)
            finally:
                os._exit(0)


def _vanish(stream: socket.socket, job_id: int, paths: Paths) -> None:
    livelock = Livelock.create(paths.livelocks, f"job_{job_id:06d}")
    stream.sendall(pack(livelock.path.encode()))
    stream.recv(100)
    livelock.remove()


if __name__ == "__main__":
    main()
