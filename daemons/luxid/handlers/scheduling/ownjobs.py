"""Jobs that luxid itself submits, for the user whose they are.

Source: DESIGN section 16.
"""

import os
from typing import Final

import attrs

from common.access import Role
from common.errors import Conflict, GantryError, InvalidRequest
from common.ids import JobId
from common.system.log import get_log
from daemons.luxid.core.submission.jobbounds import JobBounds
from daemons.luxid.core.submission.rights import Submitter
from daemons.luxid.files.submissionkeys import SubmissionKeys
from daemons.luxid.handlers.jobs.acceptance import Acceptance
from daemons.luxid.handlers.jobs.jobreading import read_jobs
from daemons.luxid.handlers.jobs.submission import Submission
from protocol.luxi.submission import JobInput
from protocol.peer import Peer

_log: Final = get_log(__name__)


@attrs.frozen
class OwnJobs:
    """Submissions without a client."""

    _acceptance: Acceptance
    _submission: Submission
    _keys: SubmissionKeys
    _bounds: JobBounds

    async def check(self, job: JobInput, submitter: Submitter) -> None:
        """Make sure that the user could submit this job now.

        Raises: InvalidRequest: it is malformed, or has secrets. Denied: it is not for him. ConfigurationMissing.
        """
        (wanted,) = await self._acceptance.of(await read_jobs([job], self._bounds), submitter)
        if isinstance(wanted, GantryError):
            raise wanted
        if any(op.secret_parameters() for op in wanted):
            raise InvalidRequest("a schedule keeps no secrets: put them into a file that only the command reads")

    async def submit(self, job: JobInput, key: str, submitter: Submitter) -> JobId:
        """Submit a job under a key; the same key gives the same job, even if it would be another one by now.

        Raises: the reason why it was refused. Unavailable: try again.
        Durability: on return the job survives a loss of power.
        """
        earlier = self._earlier(key, submitter)
        if earlier is not None:
            return earlier
        try:
            return await self._submission.submit_as(job, key, submitter, _self())
        except Conflict:
            # the same call was delivered twice at once, and the other one's job has other times
            earlier = self._earlier(key, submitter)
            if earlier is None:
                raise
            return earlier

    def _earlier(self, key: str, submitter: Submitter) -> JobId | None:
        """The job that was submitted under the key; None: there is none. Raises: InvalidRequest: why it was refused."""
        earlier = self._keys.find(submitter.key_owner, key)
        if earlier is None:
            return None
        _log.info("submission.repeated", jobs=earlier.count, first=earlier.first_id, key=key)
        answer = earlier.answers[0]
        if isinstance(answer, str):
            raise InvalidRequest(answer)
        return answer


def _self() -> Peer:
    return Peer(os.getpid(), os.getuid(), os.getgid(), role=Role.FULL)
