"""A crowd of HTTP clients that wait: long polls for jobs, and streams of events.

Source: issue 12, "500 clients on long polls and 500 event streams".
"""

import contextlib
from collections.abc import Sequence
from typing import Self

import orjson

from tests.support.wait import wait_until
from tests.support.web.httpwire import Wire, request
from tests.support.web.rapid import Web

EVENTS = request("GET", "/3/events")


class Crowd:
    """Connections to the Unix socket of rapid, each with a request that waits; a context manager that closes them."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self.waits: list[Wire] = []
        self.streams: list[Wire] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.vanish()

    def wait_for(self, job_ids: Sequence[int]) -> None:
        """One more client for each of these jobs, which waits for its end."""
        for job_id in job_ids:
            wire = Wire.local(self._web.paths.rapid_socket)
            self.waits.append(wire)
            wire.sock.sendall(request("GET", f"/3/jobs/{job_id}/wait?until=final&timeout=600"))

    def listen(self, count: int) -> None:
        """So many more clients with streams of events, of which each has begun."""
        for _ in range(count):
            wire = Wire.local(self._web.paths.rapid_socket)
            self.streams.append(wire)
            wire.sock.sendall(EVENTS)
        for wire in self.streams[-count:]:
            assert b" 200 " in wire.head(), "the stream begins"

    def settle(self) -> None:
        """Return when all requests wait inside rapid."""
        wanted = len(self.waits) + len(self.streams)
        wait_until(lambda: waiting(self._web) == wanted, what=f"{wanted} requests wait", state=lambda: load(self._web))

    def vanish(self) -> None:
        """Close all connections, without a farewell of HTTP."""
        for wire in (*self.waits, *self.streams):
            with contextlib.suppress(OSError):
                wire.close()
        self.waits.clear()
        self.streams.clear()


def load(web: Web) -> dict[str, int]:
    """What rapid says that it is doing, without this question."""
    with Wire.local(web.paths.rapid_socket) as wire:
        found = orjson.loads(wire.call(request("GET", "/3/health")))
    return {"requests": found["requests"] - 1, "waiting": found["waiting"], "calls": found["calls"]}


def waiting(web: Web) -> int:
    """The number of requests that wait, and of open streams."""
    return load(web)["waiting"]
