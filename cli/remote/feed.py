"""luxid's feed of another machine, on one connection over HTTP.

Source: `cli.connection.FeedLuxid`; `protocol.rapid.events`.
"""

import queue
import threading
from typing import Final, TypeVar, cast

import orjson

from common.errors import GantryError, InvalidRequest, ProtocolError, Unavailable
from common.system.shortages import start_thread
from common.wire import structure
from protocol.luxi.feed import FeedBegin, Subscribe, Topic
from protocol.messages import Request
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import follow_jobs
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import Event, EventParser
from protocol.rapid.events import FollowWish

R = TypeVar("R")

# seconds within which a thread whose connection is closed has ended
_ENDS_S: Final = 1.0

_Told = queue.SimpleQueue[Event | GantryError | OSError]


class RemoteFeed:
    """Reads the feed in a thread, as a wait that is cut off would cost the connection."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: RapidClient | None = None
        self._thread: threading.Thread | None = None
        self._told: _Told = queue.SimpleQueue()

    def close(self) -> None:
        """Close the connection; the thread ends with it."""
        if self._client is not None and self._thread is not None:
            self._client.hang_up()
            self._thread.join(_ENDS_S)
        self._client = self._thread = None

    def subscribe(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.subscribe`. NoThread."""
        assert isinstance(request, Subscribe)
        self.close()
        self._client, self._told = RapidClient(self._place), queue.SimpleQueue()
        args = (self._client, _wish(request), self._told)
        self._thread = threading.Thread(target=_read, args=args, daemon=True)
        start_thread(self._thread)
        begin = self._next(timeout_s)
        if begin is None:
            raise Unavailable(f"{self._place.name} gave no answer to {request.METHOD} in time")
        return cast(R, structure(_value(begin), FeedBegin, "beginning of the feed"))

    def event(self, timeout_s: float | None = None) -> tuple[str, list[object]] | None:
        """Raises: as `BlockingClient.event`."""
        event = self._next(timeout_s)
        if event is None:
            return None
        params = _value(event)
        if not isinstance(params, list):
            raise ProtocolError(f"event '{event.name}' of the feed has another form")
        return event.name, params

    def _next(self, timeout_s: float | None) -> Event | None:
        try:
            told = self._told.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(told, Exception):
            raise told
        return told


def _read(client: RapidClient, wish: FollowWish, told: _Told) -> None:
    with client:
        try:
            for event in client.stream(follow_jobs(wish), EventParser()):
                told.put(event)
            told.put(Unavailable(f"{client.place.name} ended the stream of events"))
        except (GantryError, OSError) as error:
            told.put(error)


def _wish(request: Subscribe) -> FollowWish:
    """Raises: InvalidRequest: only the feed of a machine of the cluster tells of all jobs."""
    if request.ids is None:
        raise InvalidRequest("name the jobs to follow")
    has_reasons = Topic.REASONS in request.topics
    return FollowWish(request.ids, request.fields, request.since, request.log_after, request.outputs or (), has_reasons)


def _value(event: Event) -> object:
    try:
        value: object = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"event '{event.name}' of the feed is not JSON: {error}") from error
    return value
