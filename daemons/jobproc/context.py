"""A logical unit's view of its job process.

Source: DESIGN section 7.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from common.commands.cgroups import GroupTree
from common.commands.output import OutputFile
from common.errors import JobCanceled, PrerequisiteError, RemoteError
from common.ids import JobId
from common.locks import Lock, LockLevel, LockMode, Owner
from common.objects.codec import decode_object
from common.objects.config import Cluster, Node
from common.objects.index import find_named
from common.queue import reasons, terms
from common.queue.reasons import owner_of, tries_of
from common.queue.terms import Use, terms_of
from common.settings import Settings
from common.system.livelock import Livelock
from common.system.signals import ProcessSignals
from common.wire import unstructure
from daemons.jobproc.configuration import UnitConfig, Wconfd
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.leftprocesses import Left
from daemons.jobproc.locking import JobLocks
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import JobInput, OpInput, SubmitManyJobs
from protocol.wconfd.config import GetObject
from protocol.wconfd.locks import CommandOnNode

# The properties that jobs inherit from the opcode that submits them: reason, priority, and debug level.
#
# Name, labels, begin, hold and resources of the submitting job, and its tries, are its own.
#
# Source: opcodes.md 2.


# keys inherited if the opcode itself does not set them
_IF_UNSET: Final = ("priority", "debug_level")


def inherit(parent: Mapping[str, object], jobs: Sequence[JobInput]) -> tuple[JobInput, ...]:
    """Return the jobs to submit.

    Args:
        parent: the submitting opcode, as in its job's file.
    """
    return tuple(tuple(_child(parent, op) for op in job) for job in jobs)


def _child(parent: Mapping[str, object], op: OpInput) -> OpInput:
    taken = {name: parent[name] for name in _IF_UNSET if op.get(name) is None and parent.get(name) is not None}
    # the parent's terms as a job are not inherited
    inherited = (entry for entry in _trail(parent) if not _is_of_job(entry))
    reason = [*_trail(op), *inherited]
    comment = op.get("comment") or f"Submitted by {parent['OP_ID']}"
    return {**op, **taken, "reason": reason, "comment": comment}


def _is_of_job(entry: object) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and entry[0] in (terms.SOURCE, reasons.TRY_SOURCE)


def _trail(op: OpInput) -> Sequence[object]:
    reason = op.get("reason") or ()
    # luxid refuses other values
    return reason if isinstance(reason, list | tuple) else (reason,)


class Abandoned(Exception):
    """The process is to end and to leave its job as it is, to another process."""


class UnitLocks:
    """The locks of the running opcode: to inspect, and to release early."""

    def __init__(self, locks: JobLocks) -> None:
        self._locks = locks

    @property
    def held(self) -> Mapping[Lock, LockMode]:
        return self._locks.held

    def release(self, locks: Iterable[Lock]) -> None:
        """Release some of them; others get them at once."""
        self._locks.release(locks)

    def downgrade(self, level: LockLevel) -> None:
        """Turn the exclusive locks of a level into shared ones."""
        self._locks.downgrade(level)


@attrs.define
class UnitContext:
    """The view of one opcode; a new one for each."""

    job_id: JobId
    # place of the opcode in the job, from 0
    op_index: int
    settings: Settings
    # parameters that no file has; empty without any
    secrets: Mapping[str, Any]
    # livelock of the job, for the supervisors of programs
    livelock: Livelock
    # tree for the control groups of programs; None: no control groups here
    groups: GroupTree | None
    signals: ProcessSignals
    output: OutputFile
    # standard error of commands that keep it apart
    error_output: OutputFile
    _record: JobRecord
    _locks: JobLocks
    # whether an earlier process of the job has begun the opcode, and died; only of opcodes that are resumable
    is_resumed: bool = False
    # see `keep_locks_until`
    left: Left | None = None
    # see `after_end`
    afterwards: list[Callable[[], None]] = attrs.Factory(list)
    # see `config`; None: not read yet
    _config: UnitConfig | None = attrs.field(default=None, init=False)

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to cancel; a unit may go on nevertheless."""
        return self.signals.cancel_asked

    @property
    def killed(self) -> bool:
        """Whether the job is to end at once; a unit that does not end soon is killed."""
        return self.signals.kill_asked

    def begin_canceling(self) -> None:
        """Show the opcode as *canceling*, because the job is killed, until none of its processes lives."""
        self._record.begin_canceling(self.op_index)

    @property
    def try_number(self) -> int:
        """Number of this try of the opcode, from 1."""
        return len(tries_of(self._record.job.ops[self.op_index])) + 1

    @property
    def owner_login(self) -> str | None:
        """The login of the user whose job it is; None: the job has no owner."""
        owner = owner_of(self._record.job)
        return None if owner is None else owner.login

    @property
    def units_used(self) -> tuple[Use, ...]:
        """The units of resources that the job has."""
        return terms_of(self._record.job).uses

    @property
    def trace(self) -> str:
        """`traceparent` of the span that submitted the job; "": none."""
        return terms_of(self._record.job).trace

    @property
    def config(self) -> UnitConfig:
        """The cluster's configuration: read once, and again with the locks held and after each change of the unit.

        Raises: Unavailable: wconfd did not reply for minutes. RemoteError.
        """
        if self._config is None:
            owner = Owner(self.job_id, self.livelock.path)
            self._config = UnitConfig.read(Wconfd(self._connect_wconfd, owner, self.wait, self.forget_config))
        return self._config

    def node(self, name: str) -> Node:
        """The node with this name, or with a unique short form of it, read at once.

        Raises: PrerequisiteError: there is none. Unavailable: wconfd did not reply for minutes. RemoteError.
        """
        try:
            with self._connect_wconfd() as client:
                return decode_object(client.call_retrying(GetObject("node", name)), Node, "node")
        except RemoteError as error:
            if error.code != "not_found":
                raise
        found = find_named(self.config.nodes, [name], "node", is_host=True)[0]
        if found.name == name:
            # an object that was found by its uuid would have been returned above
            raise PrerequisiteError(f"node {name!r} is being added; try again", "wrong_state")
        return found

    def cluster(self) -> Cluster:
        """The cluster's own part of the configuration, read at once. Raises: as `config`."""
        with self._connect_wconfd() as client:
            return decode_object(client.call_retrying(GetObject("cluster")), Cluster, "cluster")

    @cached_property
    def locks(self) -> UnitLocks:
        return UnitLocks(self._locks)

    def feedback(self, text: str) -> None:
        """Add a line for the user to the job's log. Cheap; it is written soon after."""
        self._record.log(self.op_index, text)

    def log(self, kind: str, message: object) -> None:
        """Add an entry of another kind than text to the job's log; the message is JSON-able."""
        self._record.log(self.op_index, message, kind)

    def begin_waiting(self) -> None:
        """Show the opcode as waiting, while its names are expanded; this happens by itself when locks are not free."""
        self._record.begin_waiting(self.op_index)

    def progress(self, fraction: float, text: str) -> None:
        """Report the progress of the work; `fraction` from 0 to 1."""
        self.feedback(f"{100 * min(max(fraction, 0.0), 1.0):.0f} %: {text}")

    def wait(self, seconds: float, *, until_canceled: bool = True) -> bool:
        """Wait, but less long if the job is asked to cancel.

        Returns: whether it was asked (`cancelled`).
        Raises: JobCanceled: the job is killed.
        """
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0 and not (until_canceled and self.cancelled):
            self.signals.wait(left_s)
            if self.killed:
                raise JobCanceled("the job was killed")
        return self.cancelled

    def submit_jobs(self, jobs: Sequence[JobInput]) -> tuple[object, ...]:
        """Submit jobs, lists of opcode objects; `offspring` tells what they inherit.

        Returns: `[true, job id]` or `[false, message]` for each, in order: JSON that a unit may return as its result.
        Raises: RemoteError, Unavailable: luxid refused all jobs or is away. The call is not repeated,
            because the jobs might then run twice.
        """
        with BlockingClient(self.settings.paths.query_socket, daemon="the queue daemon") as client:
            inherited = inherit(self._record.job.ops[self.op_index].input, jobs)
            answers = client.call(SubmitManyJobs(inherited, by_job=self.job_id))
        return tuple(map(unstructure, answers))

    def keep_locks_until(self, left: Left) -> None:
        """Keep the opcode's locks until the last of its background processes ends."""
        self.left = left

    def keep_locks_for(self, command: CommandOnNode) -> None:
        """Keep the opcode's locks, whatever ends it, until `settle`; call it before something is started on a node.

        Durability, Raises: as `JobLocks.keep_for`.
        """
        self._locks.keep_for(command)

    def settle(self) -> None:
        """Nothing of the commands on nodes runs, or will: the locks are free when the opcode ends."""
        self._locks.settle()

    def after_end(self, act: Callable[[], None]) -> None:
        """Have this called when the opcode's end is durable and its locks are free, if this process lives so long."""
        self.afterwards.append(act)

    def forget_config(self) -> None:
        """Let the configuration be read again when it is used next."""
        self._config = None

    def _connect_wconfd(self) -> BlockingClient:
        return BlockingClient(self.settings.paths.wconfd_socket, daemon="the lock daemon")
