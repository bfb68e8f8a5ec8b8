"""Warm-up: everything that every job process needs is made before the first fork.

A converter for a class, an import, a compiled pattern: each is made at its first use, and every child
would make it again. Made here, it is in the parent's memory, which the children share.
"""

import contextlib

import setproctitle

from common.errors import GantryError
from common.ids import JobId
from common.locks import BGL, LockMode, LockRequest, Owner
from common.objects.codec import decode_config, to_json
from common.objects.initial import NewUuids, initial_config
from common.objects.kinds import GroupUuid, NodeUuid
from common.opcodes.base import summary, write_opcode
from common.opcodes.registry import opcode_classes, parse_opcode
from common.queue.files.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp
from daemons.jobproc.units.registry import make_unit, unit_classes
from protocol.forkserver import StartJob
from protocol.luxi.submission import SubmitManyJobs
from protocol.messages import AnyRequest, positional, structure_reply, structure_request
from protocol.noded.call import AnyCall
from protocol.wconfd.config import ReadConfig
from protocol.wconfd.ghosts import AdoptLocks, Guard, GuardLocks
from protocol.wconfd.locks import (
    DownGradeLocksLevel,
    FreeLocks,
    IntersectLocks,
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
    import daemons.jobproc.nodecommands.nodecommand  # noqa: F401  # loaded for the children
    from common.commands.spec import CommandSpec
    from protocol.noded.call import request_body
    from protocol.noded.commands import CommandPhase, FollowCommand, ForgetCommands, StartCommand, StopCommand

    state = {"key": "1.0.1", "phase": "ended", "outcome": {"exit_code": 0}}
    calls: tuple[tuple[AnyCall, object], ...] = (
        (StartCommand("1.0.1", CommandSpec(argv=("true",)), 0, 0), state),
        (FollowCommand("1.0.1", 0, 0, CommandPhase.RUNNING, 1.0), {"state": state, "output": [0, "x"]}),
        (StopCommand("1.0.1"), state),
        (ForgetCommands(("1.0.1",)), None),
    )
    for call, reply in calls:
        request_body(call)
        structure_reply(type(call), reply)
    requests: tuple[AnyRequest, ...] = (GuardLocks(_OWNER, (Guard("node1", "1.0.1"),)), AdoptLocks(_OWNER))
    for request in requests:
        positional(request)
        structure_reply(type(request), [])
