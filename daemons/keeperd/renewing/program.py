"""The program of the renewing process: `python -m daemons.keeperd.renewing.program FD`; keeperd starts it.

Theory. It must not wait for anything but etcd and keeperd: its memory is locked, so that it is not swapped out; the
kernel is asked to spare it and to run it first. Where that is not allowed it goes on without. When keeperd goes, it
goes too, and the deadline passes by itself.

Source: lease.md 2, 6 and 8.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
from typing import Final

from common.errors import InvalidRequest
from daemons.keeperd.renewing.duties import Duties, KeeperGone
from daemons.keeperd.renewing.orders import MAX_MESSAGE, LogMessage, Setup, decode, encode

# MCL_CURRENT and MCL_FUTURE
_LOCK_ALL: Final = 1 | 2
_NICE: Final = -10
_OOM_SCORE: Final = b"-900"


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    # keeperd ends it by closing the line, after it has said what is to become of the mastership
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(KeeperGone, ConnectionResetError):
        first = line.recv(MAX_MESSAGE)
        setup = decode(first) if first else None
        if not isinstance(setup, Setup):
            return
        try:
            duties = Duties(line, setup)
        except InvalidRequest as error:
            line.send(encode(LogMessage("renewing.impossible", error.message)))
            return
        _take_precedence()
        duties.run()


def _take_precedence() -> None:
    # under a limit a later allocation would fail
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY or os.geteuid() == 0:
        ctypes.CDLL(None).mlockall(_LOCK_ALL)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(_OOM_SCORE)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
