"""Submit the job that a request means.

Source: rapi.md 3.
"""

import attrs

from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core.writes import Write
from daemons.rapid.ganeti.handlers.asking import asking_of
from protocol.luxi.submission import SubmitJob


@attrs.frozen
class Writing:
    """The handler of a row of the table of writes."""

    _write: Write

    async def submit(self, asked: Asked) -> object:
        """The id of the job, as a number.

        Raises: InvalidRequest, OpcodeUnknown, Denied: as `Write.opcodes`.
        Durability: the job is durable.
        """
        return await asked.daemons.luxid(SubmitJob(tuple(self._write.opcodes(asking_of(asked)))))
