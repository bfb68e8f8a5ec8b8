"""Which of the jobs found under a new master claim their locks, and which of them first.

Theory. A job that another node's process had in its hands may have waited for its locks, or have begun its command: its
file does not tell. Its node does, once it obeys the new master: a command of which nothing runs there is started by the
new master or never. Two jobs that want one lock may both look as if they had begun, and the claim of the one that only
waited must not keep the lock from the other. So a job claims if its node says that its command runs, and if its node is
silent, after all those.

Source: DESIGN section 14, "New master".
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from common.ids import JobId
from daemons.luxid.core.queue.nodework import NodeWork
from protocol.noded.names import command_key


def claim_order(works: Mapping[JobId, NodeWork], running: Mapping[str, AbstractSet[str]]) -> Sequence[JobId]:
    """The jobs that claim, in order. Args: running: the keys that each node that has replied has processes of."""
    living = [job_id for job_id, work in works.items() if _key(job_id, work) in running.get(work.node, ())]
    silent = [job_id for job_id, work in works.items() if work.node not in running]
    return (*sorted(living), *sorted(silent))


def _key(job_id: JobId, work: NodeWork) -> str:
    return command_key(job_id, work.op_index, work.attempt)
