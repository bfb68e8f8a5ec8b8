"""Submit jobs.

Opcodes travel as JSON objects: the registry (`common.opcodes.registry`) interprets them, and a client
does not need it.

Source: luxid.md section 2.
"""

from collections.abc import Mapping

import attrs

from common.ids import JobId
from common.shapes import Lenient, TaggedRow
from protocol.messages import Request

# one opcode: {"OP_ID": "OP_...", parameters}
OpInput = Mapping[str, object]


JobInput = tuple[OpInput, ...]


@attrs.frozen
class SubmitJob(Request[JobId]):
    """Take one job; returns its id when the job is durable."""

    METHOD = "SubmitJob"
    job: JobInput
    # key chosen by the client, unique for each submission: sent again, it gets the same id; ours
    key: str | None = None
    # name of the submitter, if the settings trust the caller to name one; ours
    user: str | None = None


@attrs.frozen
class SubmitJobToDrainedQueue(Request[JobId]):
    """As `SubmitJob`, but ignores the drain flag; for administrators."""

    METHOD = "SubmitJobToDrainedQueue"
    job: JobInput


@attrs.frozen
class Submitted(TaggedRow):
    """A job was taken; `[true, id]`."""

    TAG = True
    job_id: JobId


@attrs.frozen
class Refused(TaggedRow):
    """A job was refused, with the reason; `[false, message]`."""

    TAG = False
    message: str


SubmitAnswer = Submitted | Refused


@attrs.frozen
class SubmitManyJobs(Request[tuple[SubmitAnswer, ...]]):
    """Take several jobs at once; one result for each, in order."""

    METHOD = "SubmitManyJobs"
    jobs: tuple[JobInput, ...]
    # as for `SubmitJob`; ours
    key: str | None = None
    user: str | None = None
    # id of the job whose process submits them: its owner owns them, too; ours
    by_job: JobId | None = None


@attrs.frozen
class SubmittedOnce(Lenient):
    """What became of a submission under a key."""

    # one for each job, in order
    answers: tuple[SubmitAnswer, ...]
    # whether the same jobs were submitted before under this key: these are the answers of then
    is_earlier: bool


@attrs.frozen
class SubmitOnce(Request[SubmittedOnce]):
    """As `SubmitManyJobs`, under a key that a person or a script has chosen; ours.

    The same key with other jobs is refused.
    """

    METHOD = "SubmitOnce"
    jobs: tuple[JobInput, ...]
    key: str
    user: str | None = None
    by_job: JobId | None = None
