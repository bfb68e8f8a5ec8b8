"""The jobs that add nodes: submitted to luxid, and followed for the machines that wait for them.

Source: DESIGN section 13, "Joining".
"""

import time
from pathlib import Path
from typing import Final

from common.errors import JobLost, RemoteError, Unavailable
from common.ids import JobId
from common.nodes.joining.jointoken import JoinToken
from common.queue.jobs import FINAL_NAMES
from protocol.client import Client
from protocol.luxi.changes import JobChange, WaitForJobChange
from protocol.luxi.queries import QueryJobs
from protocol.luxi.submission import OpInput, SubmitJob
from protocol.noded.joining import NEWS_S, News

_FIELDS: Final = ("status", "opresult")
_SUCCESS: Final = "success"
_NS: Final = 1_000_000_000


class AddJobs:
    """Args: socket: luxid's. Raises, all: RemoteError, Unavailable: luxid refuses, or is away."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def submit(self, token: JoinToken) -> int:
        """Submit the job for the machine that has used this token; under one number of `use.jobs` only once."""
        async with self._client() as client:
            return await client.call(SubmitJob((_opcode(token),), _key(token)))

    async def has_failed(self, job_id: int) -> bool:
        """Whether a job has ended without success, or is gone."""
        async with self._client() as client:
            (row,) = await client.call(QueryJobs((JobId(job_id),), ("status",)))
        return row[0] is None or (row[0] in FINAL_NAMES and row[0] != _SUCCESS)

    async def news(self, job_id: int, status: str, serial: int) -> News:
        """Wait until the job's status differs, or its log has more than `serial` entries; at most `NEWS_S`."""
        async with self._client() as client:
            previous = None if not status else await self._values(client, job_id)
            if previous is not None and previous[0] != status:
                previous = None
            call = WaitForJobChange(JobId(job_id), _FIELDS, previous, serial, NEWS_S)
            try:
                return _news(await client.call(call), serial)
            except RemoteError as error:
                if error.wire_name != JobLost.wire_name:
                    raise
                values = await self._values(client, job_id)
                return News(str(values[0] or "gone"), serial, (), _error(values[1]))

    async def _values(self, client: Client, job_id: int) -> tuple[object, ...]:
        return (await client.call(QueryJobs((JobId(job_id),), _FIELDS)))[0]

    def _client(self) -> Client:
        return Client(self._socket, daemon="the queue daemon of the master")


def _opcode(token: JoinToken) -> OpInput:
    assert token.use is not None, "only a used token has a machine"
    return {
        "OP_ID": "OP_NODE_ADD",
        "node_name": token.use.node,
        "primary_ip": token.use.address,
        "readd": bool(token.readd),
        "reason": [["gantry:join", f"token {token.id}", time.time_ns() // _NS * _NS]],
    }


def _key(token: JoinToken) -> str:
    assert token.use is not None, "as above"
    return f"join-{token.id}-{token.use.jobs}"


def _news(change: JobChange, serial: int) -> News:
    status = change.values[0]
    if not isinstance(status, str):
        raise Unavailable("the queue daemon of the master cannot tell the state of the job; try again")
    lines = tuple(str(entry.message) for entry in change.entries if isinstance(entry.message, str))
    last = max([serial, *(entry.serial for entry in change.entries)])
    return News(status, last, lines, _error(change.values[1]) if status in FINAL_NAMES else "")


def _error(results: object) -> str:
    """The text of the opcode's failure, from Ganeti's `[name, [text, ...]]`; empty: there is none."""
    match results:
        case [[str(), [str(text), *_]], *_]:
            return text
        case [str(text), *_]:
            return text
        case _:
            return ""
