"""What users see of the jobs of others.

Theory. What others see is made by taking away, before any field is read: so no field, filter or summary can tell more.
Arguments beyond the program's name, environment, results, log and output are the owner's and the operators'. The name
that its owner gave the job (its comment), its locks, dependencies, times and states are everybody's.

Source: DESIGN section 4, "Who is calling".
"""

import enum
from collections.abc import Mapping

import attrs

from common.access import Caller, Role, check_role
from common.queue.jobs import Job, JobOp
from common.queue.publickeys import ARGV, PUBLIC_KEYS
from common.queue.submitter import NO_UID, owner_of


class Deed(enum.Enum):
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

    def check_owned(self, job: Job, deed: Deed) -> None:
        """Make sure that the job is the user's own, or that the user is an operator.

        Raises: Denied: it is another's.
        """
        if not self.may_see(job):
            caller = self.uid if self.caller is None else self.caller
            whose = repr(owner.shown) if (owner := owner_of(job)) is not None else "the daemons' user"
            refusal = deed.value.format(job.job_id)
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
