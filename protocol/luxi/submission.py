"""Taking jobs.

Opcodes travel as JSON objects: what they mean is the registry's business (`common.opcodes.registry`), and a client
needs none of it.

Source: luxid.md section 2.
"""

from collections.abc import Mapping

import attrs

from common.ids import JobId
from common.shapes import TaggedRow
from protocol.messages import Request

# one opcode: {"OP_ID": "OP_...", parameters}
OpInput = Mapping[str, object]


JobInput = tuple[OpInput, ...]


@attrs.frozen
class SubmitJob(Request[JobId]):
    """Take one job; answers its id once it is durable."""

    METHOD = "SubmitJob"
    job: JobInput
    # chosen by the client, another one for each submission: sent again, it gets the same id; ours
    key: str | None = None
    # in whose name, if the settings trust the caller to say so; ours
    user: str | None = None


@attrs.frozen
class SubmitJobToDrainedQueue(Request[JobId]):
    """The same without a look at the drain flag; for administrators."""

    METHOD = "SubmitJobToDrainedQueue"
    job: JobInput


@attrs.frozen
class Submitted(TaggedRow):
    """A job was taken; `[true, id]`."""

    TAG = True
    job_id: JobId


@attrs.frozen
class Refused(TaggedRow):
    """A job was not taken, and why; `[false, message]`."""

    TAG = False
    message: str


SubmitAnswer = Submitted | Refused


@attrs.frozen
class SubmitManyJobs(Request[tuple[SubmitAnswer, ...]]):
    """Take several jobs at once; an answer for each, in order."""

    METHOD = "SubmitManyJobs"
    jobs: tuple[JobInput, ...]
    # as for `SubmitJob`; ours
    key: str | None = None
    user: str | None = None
    # the job whose process submits them: they are its owner's; ours
    by_job: JobId | None = None
