"""A rehearsal: the fork server lives a no-op job itself before it forks the first one.

Theory. Much is made when code runs for the first time: instructions specialized for the types they meet, caches of
attributes, converters. Each child would make all that again, and for each page of memory that it changes by that the
kernel makes a copy. What the parent has made, the children share without copying.

The job is lived on a scratch folder, with luxid's messages sent beforehand and a thread as wconfd. Nothing remains of
it but memory. The interpreter specializes instructions after eight calls: hence the number of rounds.
"""

import contextlib
import logging
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from common.ids import JobId
from common.paths import Paths
from common.queue.files.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp
from common.settings import Settings
from common.system.log import get_log
from common.system.signals import ProcessSignals
from common.system.threadstart import start_thread
from daemons.jobproc import life
from protocol.dial import reachable
from protocol.forkserver import GO_AHEAD
from protocol.framing import pack

ROUNDS: Final = 12
_JOB: Final = Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))
_CHUNK: Final = 4096
_PREFIX: Final = "rehearsal-"
# reply to each call: no owner is in the way
_GRANTED: Final = pack(b'{"success":true,"result":[]}')
_log: Final = get_log(__name__)


def rehearse(settings: Settings) -> Job | None:
    """Live the job `ROUNDS` times; nothing is logged meanwhile. No other thread may run.

    Returns: the job after the last round; None: the rehearsal failed, so jobs take a little longer.
    """
    for left in settings.paths.run.glob(f"{_PREFIX}*"):
        # left by a fork server that was killed in its rehearsal
        shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=settings.paths.run) as scratch, _silence():
            paths = Paths.under_root(Path(scratch))
            paths.make_folders()
            return _rehearse(attrs.evolve(settings, paths=paths))
    except OSError as error:
        _log.warning("rehearsal.failed", error=error, effect="jobs take a little longer")
        return None


def _rehearse(settings: Settings) -> Job:
    """Raises: OSError."""
    path = settings.paths.job_file(_JOB.job_id)
    signals = ProcessSignals()
    signals.open()
    try:
        with _wconfd(settings.paths.wconfd_socket, signals):
            for _ in range(ROUNDS):
                path.write_bytes(encode_job(_JOB))
                _live(settings, signals)
        return decode_job(path.read_bytes(), path.name)
    finally:
        signals.close()


def _live(settings: Settings, signals: ProcessSignals) -> None:
    luxid, process = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with luxid:
        luxid.sendall(pack(GO_AHEAD) + pack(b"[null]"))
        life.run(_JOB.job_id, process, settings, signals)


@contextlib.contextmanager
def _wconfd(path: Path, signals: ProcessSignals) -> Iterator[None]:
    """Serve this socket as a wconfd that grants everything; at the end, every wait for it ends, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with reachable(path) as address:
            listener.bind(address)
        listener.listen()
        thread = threading.Thread(target=_grant_all, args=(listener, signals))
        start_thread(thread)
        try:
            yield
        finally:
            # wakes the thread
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _grant_all(listener: socket.socket, signals: ProcessSignals) -> None:
    try:
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(_CHUNK):
                    connection.sendall(_GRANTED)
    except OSError:
        # shut down
        signals.cancel_asked = True


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
