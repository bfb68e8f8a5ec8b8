"""Events of `GET /3/events` as typed values.

Source: `protocol.rapid.events`.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from common.errors import ProtocolError
from common.wire import structure
from protocol.rapid.clients.eventparser import Event
from protocol.rapid.events import Begin, DaemonsState, FiltersChanged, JobsChanged, LocksChanged, QueueChanged


@attrs.frozen
class ReasonsChanged:
    """The reasons why jobs wait may have changed."""


NewsValue = Begin | DaemonsState | JobsChanged | ReasonsChanged | LocksChanged | FiltersChanged | QueueChanged

_CLASSES: Final[Mapping[str, type[NewsValue]]] = {
    "begin": Begin,
    "state": DaemonsState,
    "jobs": JobsChanged,
    "locks": LocksChanged,
    "filters": FiltersChanged,
    "queue": QueueChanged,
}


@attrs.frozen
class News:
    """An event, and the id with which a later stream goes on after it."""

    value: NewsValue
    id: str


def read_news(event: Event) -> News | None:
    """The event with its value; None: only a newer server has such events.

    Raises: ProtocolError, InvalidRequest: its value has another shape.
    """
    if event.name == "reasons":
        return News(ReasonsChanged(), event.id)
    kind = _CLASSES.get(event.name)
    if kind is None:
        return None
    try:
        value = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"event '{event.name}' is not JSON: {error}") from error
    return News(structure(value, kind, f"event {event.name}"), event.id)
