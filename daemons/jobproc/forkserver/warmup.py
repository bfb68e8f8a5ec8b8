"""Warm-up: everything that every job process needs is made before the first fork.

A converter for a class, an import, a compiled pattern: each is made at its first use, and every child
would make it again. Made here, it is in the parent's memory, which the children share.
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
import setproctitle

from common.errors import GantryError
from common.ids import JobId
from common.locks import BGL, LockMode, LockRequest, Owner
from common.objects.codec import decode_config, to_json
from common.objects.initial import NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid
from common.opcodes.base import summary, write_opcode
from common.opcodes.registry import opcode_classes, parse_opcode
from common.paths import Paths
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp
from common.settings import Settings
from common.system.log import get_log
from common.system.shortages import start_thread
from common.system.signals import ProcessSignals
from daemons.jobproc import life
from daemons.jobproc.units.registry import make_unit, unit_classes
from protocol.forkserver import GO_AHEAD, StartJob
from protocol.framing import pack
from protocol.luxi.jobs import SubmitManyJobs
from protocol.messages import AnyRequest, positional, structure_reply, structure_request
from protocol.noded.call import AnyCall
from protocol.unixsocket import reachable
from protocol.wconfd.config import ReadConfig
from protocol.wconfd.locks import (
    AdoptLocks,
    CommandOnNode,
    DownGradeLocksLevel,
    FreeLocks,
    IntersectLocks,
    KeepLocks,
    TryUpdateLocks,
    UpdateLocksWaiting,
    WaitLocks,
)

_OWNER = Owner(1, "/livelock", 1)
_REQUESTS = (LockRequest(BGL, LockMode.SHARED),)
_EXAMPLES: tuple[tuple[AnyRequest, object], ...] = (
    (UpdateLocksWaiting(_OWNER, 0, _REQUESTS), [_OWNER.to_wire()]),
    (TryUpdateLocks(_OWNER, _REQUESTS), []),
    (WaitLocks(_OWNER, 1.0), True),
    (FreeLocks(_OWNER), []),
    (IntersectLocks(_OWNER, (BGL,)), []),
    (DownGradeLocksLevel(_OWNER, BGL.level), []),
    (SubmitManyJobs(()), [[True, 1]]),
    (ReadConfig(), {}),
)


def warm_up() -> None:
    """Import all opcodes and units, and use once all that a job uses.

    Raises: ImportError and others: a plug-in is broken.
    """
    for request, reply in _EXAMPLES:
        positional(request)
        structure_reply(type(request), reply)
    structure_request(StartJob, [1])
    unit_classes()
    for op_id in opcode_classes():
        # an opcode that lacks a parameter is refused, but by then its converter is made
        with contextlib.suppress(GantryError):
            op = parse_opcode({"OP_ID": op_id})
            write_opcode(op)
            summary(op)
            make_unit(op)
    # its first call is the expensive one
    setproctitle.getproctitle()
    decode_job(encode_job(Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))), "job-1")
    uuids = NewUuids(cluster="cluster", node=NodeUuid("node"), group=GroupUuid("group"))
    decode_config(to_json(initial_config("cluster", "node", now=0.0, uuids=uuids)))


def warm_up_for_nodes() -> None:
    """The same for what jobs with commands on nodes need beside; on one machine it is not even imported."""
    import ssl

    import daemons.jobproc.nodecommands.nodecommand  # noqa: F401  # loaded for the children
    from common.commands.spec import CommandSpec
    from protocol.noded.call import request_body
    from protocol.noded.commands import CommandPhase, FollowCommand, ForgetCommands, StartCommand, StopCommand

    state = {"key": "1.0.1", "phase": "ended", "outcome": {"exit_code": 0}}
    # its first context takes OpenSSL longer than all others
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calls: tuple[tuple[AnyCall, object], ...] = (
        (StartCommand("1.0.1", CommandSpec(argv=("true",)), 0, 0), state),
        (FollowCommand("1.0.1", 0, 0, CommandPhase.RUNNING, 1.0), {"state": state, "output": [0, "x"]}),
        (StopCommand("1.0.1"), state),
        (ForgetCommands(("1.0.1",)), None),
    )
    for call, reply in calls:
        request_body(call)
        structure_reply(type(call), reply)
    requests: tuple[AnyRequest, ...] = (KeepLocks(_OWNER, (CommandOnNode("node1", "1.0.1"),)), AdoptLocks(_OWNER))
    for request in requests:
        positional(request)
        structure_reply(type(request), [])


# A rehearsal: the fork server lives a no-op job itself before it forks the first one.
#
# Theory. Much is made when code runs for the first time: instructions specialized for the types they meet, caches of
# attributes, converters. Each child would make all that again, and for each page of memory that it changes by that the
# kernel makes a copy: half of the CPU time of fork server and job process. What the parent has made, the children share
# without copying.
#
# The job is lived on a scratch folder, with luxid's messages sent beforehand and a thread as wconfd. Nothing remains of
# it but memory. The interpreter specializes instructions after eight calls: hence the number of rounds.


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
