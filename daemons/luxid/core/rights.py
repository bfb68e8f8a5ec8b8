"""What a user may submit, see and change of jobs, and as which user a job runs.

Theory. A job acts with the rights of its owner. What acts with the daemons' own rights (every opcode but a command)
names the role that it takes to submit it; a command runs as its submitter, which is written into the opcode, so that
it is durable with the job and needs no second look when the job starts. Root's commands run as root, if that is
possible: if the daemons are root, or a launcher starts them. Every user who may submit may name locks, but for those
that hold up everybody else: the BGL taken exclusively and whole levels, shared ones too, are for operators.

Source: DESIGN section 4, "Who is calling".
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.access import Caller, Role, caller_text, check_role
from common.errors import Denied
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand
from common.queue.jobs import ARGV, PUBLIC_KEYS, Job, JobOp
from common.queue.reasons import NO_UID, JobOwner, owner_of, without_owner
from daemons.luxid.core.submission.newjobs import ParsedJob

# What users see of the jobs of others.
#
# Theory. What others see is made by taking away, before any field is read: so no field, filter or summary can tell
# more. Arguments beyond the program's name, environment, results, log and output are the owner's and the operators'.
# The name that its owner gave the job (its comment), its locks, dependencies, times and states are everybody's.
#
# Source: DESIGN section 4, "Who is calling".


class OwnerRight(enum.Enum):
    """What a job's owner and operators may do with it, and others may not, as refusals tell it."""

    CANCEL = "job {} cannot be canceled"
    CHANGE = "job {} cannot be changed"
    SET_PRIORITY = "job {} cannot get another priority"
    ARCHIVE = "job {} cannot be archived"
    READ_OUTPUT = "the output of job {} cannot be read"


@attrs.frozen
class Viewer:
    """A user who looks at jobs."""

    # NO_UID: a caller over HTTP without a Unix user, who owns no job
    uid: int
    role: Role
    # the user as messages name them; None: by the number
    caller: Caller | None = None

    @property
    def sees_all(self) -> bool:
        return self.role >= Role.OPERATE

    def may_see(self, job: Job) -> bool:
        """Whether this user may see all of this job."""
        return self.sees_all or self._owns(job)

    def check_owned(self, job: Job, action: OwnerRight) -> None:
        """Make sure that the job is the user's own, or that the user is an operator.

        Raises: Denied: it is another's.
        """
        if not self.may_see(job):
            caller = self.uid if self.caller is None else self.caller
            whose = repr(owner.shown) if (owner := owner_of(job)) is not None else "the daemons' user"
            refusal = action.value.format(job.job_id)
            check_role(self.role, Role.OPERATE, caller, f"{refusal}: it belongs to {whose}; another user")

    def owns_uid(self, uid: int) -> bool:
        """Whether what is of this user is his own."""
        return uid == self.uid != NO_UID

    def _owns(self, job: Job) -> bool:
        owner = owner_of(job)
        return owner is not None and self.owns_uid(owner.uid)


def public_job(job: Job) -> Job:
    """What everybody may see of a job."""
    return attrs.evolve(job, ops=tuple(map(_public_op, job.ops)), extra={})


def _public_op(op: JobOp) -> JobOp:
    return attrs.evolve(op, input=public_input(op.input), result=None, log=(), extra={})


def public_input(op_input: Mapping[str, object]) -> dict[str, object]:
    """What everybody may see of an opcode's input."""
    shown = {key: op_input[key] for key in PUBLIC_KEYS if key in op_input}
    argv = op_input.get(ARGV)
    if isinstance(argv, list | tuple) and argv:
        # the first word of a shell's line may be an assignment, so not even that is shown
        shown[ARGV] = ["sh"] if op_input.get("shell") else [argv[0]]
    return shown


# login as which commands of root run
ROOT: Final = "root"


@attrs.frozen
class Host:
    """The user as which the daemons run."""

    uid: int
    login: str
    # whether a launcher starts commands as other users
    has_launcher: bool = False

    @property
    def may_become_others(self) -> bool:
        return self.uid == 0 or self.has_launcher


@attrs.frozen
class Submitter:
    """The user who submits, and his role."""

    uid: int
    # "": the user has none on this machine
    login: str
    role: Role
    # name of the HTTP user in whose name the submission comes; None: it comes from this machine
    http_user: str | None = None

    @property
    def owner(self) -> JobOwner | None:
        """The owner of the jobs; None: the daemons' user."""
        if self.http_user is not None:
            return JobOwner(self.uid, self.login, self.role, self.http_user)
        return None if self.role is Role.FULL else JobOwner(self.uid, self.login)

    @property
    def caller(self) -> Caller:
        return self.uid if self.http_user is None else self.http_user

    def name(self, host: Host) -> str:
        """The submitter as jobs name him; "": it is not known."""
        if self.owner is not None:
            return self.owner.shown
        return self.login or (host.login if self.uid == host.uid else str(self.uid))

    @property
    def key_owner(self) -> str:
        """The user to whom submission keys belong."""
        return str(self.uid) if self.login or self.http_user is None else f"http {self.http_user!r}"


def authorize(jobs: Sequence[ParsedJob], submitter: Submitter, host: Host) -> tuple[ParsedJob, ...]:
    """The jobs as this user may submit them: commands name the user as which they run, and no trail names an owner.

    Raises: Denied: an opcode is not for him, or the daemons cannot run it as him; says which, and what it takes.
    """
    if submitter.role is Role.FULL:
        is_roots = submitter.uid == 0 and host.has_launcher
        return tuple(tuple(_as_root(op) if is_roots else _without_owner(op) for op in ops) for ops in jobs)
    return tuple(
        tuple(_authorize(op, submitter, host, _where(len(jobs), number, index)) for index, op in enumerate(ops, 1))
        for number, ops in enumerate(jobs, 1)
    )


def _where(count: int, number: int, index: int) -> str:
    return f"job {number}, opcode {index}" if count > 1 else f"opcode {index}"


def _authorize(op: OpCode, submitter: Submitter, host: Host, where: str) -> OpCode:
    check_role(submitter.role, op.SUBMIT_ROLE, submitter.caller, f"{where}: {op.OP_ID}")
    if (wide := next(op.lock_declaration().wide_locks(), None)) is not None:
        check_role(
            submitter.role, Role.OPERATE, submitter.caller, f"{where}: {op.OP_ID} under '{wide}', which is for all,"
        )
    op = _without_owner(op)
    return attrs.evolve(op, user=_user_of(op, submitter, host, where)) if isinstance(op, OpRunCommand) else op


def _without_owner(op: OpCode) -> OpCode:
    trail = without_owner(op.reason)
    return op if trail is op.reason else attrs.evolve(op, reason=trail)


def _as_root(op: OpCode) -> OpCode:
    op = _without_owner(op)
    return attrs.evolve(op, user=ROOT) if isinstance(op, OpRunCommand) and op.user is None else op


def _user_of(op: OpRunCommand, submitter: Submitter, host: Host, where: str) -> str:
    if submitter.http_user is not None and not submitter.login:
        who = caller_text(submitter.http_user)
        raise Denied(
            f"{where}: {who} has no Unix user, so no command can run for it; an administrator gives it one: "
            "'--unix-user LOGIN' of 'gantry user modify', or '--run-as LOGIN' of 'gantry token create'"
        )
    if op.user is not None and op.user != submitter.login:
        check_role(submitter.role, Role.ADMIN, submitter.caller, f"{where}: a command as {op.user!r}")
    user = op.user or submitter.login
    if not user:
        raise Denied(f"{where}: user {submitter.uid} has no login on this machine, so no command can run as him")
    if user != host.login and not host.may_become_others:
        raise Denied(
            f"{where}: a command cannot run as {user!r} here, as the daemons run as {host.login!r}, "
            "who cannot become another user; root can change that: 'gantry cluster run-as-submitter'"
        )
    return user
