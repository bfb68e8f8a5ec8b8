"""Query luxid for what jobs waited for."""

from collections.abc import Mapping, Sequence

from cli.luxid import Luxid
from common.errors import RemoteError
from common.ids import JobId
from common.queue.waithistory import Span
from protocol.luxi.why.waits import ReadJobWaits


def job_waits(client: Luxid, job_ids: Sequence[int]) -> Mapping[int, Sequence[Span]]:
    """Return the spans of these jobs, by id; none for a job that does not exist, or if luxid lacks the method.

    Raises: as `BlockingClient.call`, except RemoteError.
    """
    if not job_ids:
        return {}
    try:
        answers = client.call(ReadJobWaits(tuple(map(JobId, job_ids))))
    except RemoteError:
        # an older luxid, or Ganeti's, has no such method
        return {}
    return {job_id: spans or () for job_id, spans in zip(job_ids, answers, strict=True)}
