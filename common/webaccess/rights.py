"""Rights of callers over HTTP: the roles, and finer rights for tokens.

Theory. A call names the right that it needs. A caller has it by a role, which includes many rights, or by its name.
In luxid, the call is then made with the role that comes with it: so a token with `jobs.cancel` cancels any job,
but reads no more of it than everybody does.

Source: DESIGN section 15; DESIGN section 4, "Who is calling"; `common.access`.
"""

import enum
from collections.abc import Iterable
from typing import Final

import attrs

from common.access import Role


class Right(enum.Enum):
    """A right as tokens name it."""

    JOBS_READ = "jobs.read"
    JOBS_SUBMIT = "jobs.submit"
    # cancel, kill and reprioritize jobs of all users; `jobs.submit` is enough for one's own
    JOBS_CANCEL = "jobs.cancel"
    JOBS_PRIORITY = "jobs.priority"
    JOBS_ARCHIVE = "jobs.archive"
    FILTERS_READ = "filters.read"
    FILTERS_WRITE = "filters.write"
    LOCKS_READ = "locks.read"
    # drain and open the queue, pause the watcher
    QUEUE_WRITE = "queue.write"
    # nodes, groups, networks, instances, the cluster
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    METRICS_READ = "metrics.read"


# smallest role that has a right; luxid carries out the call with it
ROLE_OF: Final = {
    Right.JOBS_READ: Role.READ,
    Right.JOBS_SUBMIT: Role.SUBMIT,
    Right.JOBS_CANCEL: Role.OPERATE,
    Right.JOBS_PRIORITY: Role.OPERATE,
    Right.JOBS_ARCHIVE: Role.OPERATE,
    Right.FILTERS_READ: Role.READ,
    Right.FILTERS_WRITE: Role.OPERATE,
    Right.LOCKS_READ: Role.READ,
    Right.QUEUE_WRITE: Role.OPERATE,
    Right.CLUSTER_READ: Role.READ,
    # Ganeti's `write` submits every opcode
    Right.CLUSTER_WRITE: Role.OPERATE,
    Right.METRICS_READ: Role.READ,
}


@attrs.frozen
class Rights:
    """What a caller may do: by a role, and by single rights."""

    role: Role = Role.NONE
    single: frozenset[Right] = frozenset()

    def role_for(self, needed: Iterable[Right]) -> Role:
        """The role with which a call is made that needs any one of these rights; NONE: the caller has none of them."""
        roles = [self.role if self.role >= ROLE_OF[right] else Role.NONE for right in needed]
        roles += [ROLE_OF[right] for right in needed if right in self.single]
        return max(roles, default=Role.NONE)
