"""Which jobs a node has otherwise than the master."""

from collections.abc import Mapping

import attrs

from common.ids import JobId


@attrs.frozen
class JobDigest:
    """The file of a job on the master."""

    digest: str
    is_archived: bool


def differing(
    masters: Mapping[JobId, JobDigest], live: Mapping[JobId, str], archived: Mapping[JobId, str]
) -> Mapping[JobId, bool]:
    """The jobs that the node must be sent, each with whether it lacks the content too, or only the move to the archive.

    Args:
        live, archived: the digests of the node's files of these jobs.
    """
    found: dict[JobId, bool] = {}
    for job_id, ours in masters.items():
        if not ours.is_archived:
            if live.get(job_id) != ours.digest:
                found[job_id] = True
        elif job_id in live:
            # a move over an archived file replaces it
            found[job_id] = live[job_id] != ours.digest
        elif archived.get(job_id) != ours.digest:
            found[job_id] = True
    return found
