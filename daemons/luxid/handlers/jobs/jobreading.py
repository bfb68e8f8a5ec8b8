"""Read the opcodes of a submission.

Source: luxid.md 1.4, 2.2.
"""

from collections.abc import Sequence

from common.errors import GantryError
from daemons.luxid.core.submission.jobbounds import JobBounds
from daemons.luxid.core.submission.newjobs import Wanted, parse_jobs
from daemons.luxid.turns import in_turns
from protocol.luxi.submission import JobInput
from protocol.serving.service import MalformedArguments


async def read_jobs(inputs: Sequence[JobInput], bounds: JobBounds) -> Sequence[Wanted]:
    """For each the job, or why it is refused by itself.

    Raises: MalformedArguments: an opcode is malformed, which for a client is like malformed JSON (luxid.md 1.4).
    """
    try:
        parsed = await in_turns(parse_jobs(inputs, bounds))
    except GantryError as error:
        raise _malformed(error) from error
    return [_malformed(each) if isinstance(each, GantryError) else each for each in parsed]


def _malformed(error: GantryError) -> MalformedArguments:
    return MalformedArguments(error.message, **error.fields)
