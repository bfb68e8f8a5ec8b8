"""The calls about filter rules, the queue, locks, and what the cluster has.

Source: DESIGN section 15.
"""

from collections.abc import Sequence

from common.query.kinds import QueryKind
from common.wire import unstructure
from protocol.luxi.queries import FieldDefinitions
from protocol.rapid.callers import Caller
from protocol.rapid.clients.httpcall import HttpCall, get, post, segment
from protocol.rapid.events import Topic
from protocol.rapid.filters import Filter, FilterList, FilterTrial, FilterWish
from protocol.rapid.locks import LockList
from protocol.rapid.objects import ObjectList, ObjectQuery, ObjectRows
from protocol.rapid.queue import LimitsWish, Queue


def list_filters() -> HttpCall[FilterList]:
    return get("/3/filters", FilterList)


def get_filter(uuid: str) -> HttpCall[Filter]:
    return get(f"/3/filters/{segment(uuid)}", Filter)


def add_filter(wish: FilterWish) -> HttpCall[Filter]:
    return post("/3/filters", Filter, wish)


def replace_filter(uuid: str, wish: FilterWish) -> HttpCall[Filter]:
    return HttpCall("PUT", f"/3/filters/{segment(uuid)}", Filter, body=unstructure(wish))


def delete_filter(uuid: str) -> HttpCall[None]:
    return HttpCall("DELETE", f"/3/filters/{segment(uuid)}", type(None), is_repeatable=False)


def try_filter(wish: FilterWish) -> HttpCall[FilterTrial]:
    return post("/3/filters/try", FilterTrial, wish, is_repeatable=True)


def get_queue() -> HttpCall[Queue]:
    return get("/3/queue", Queue)


def drain_queue() -> HttpCall[Queue]:
    return post("/3/queue/drain", Queue, is_repeatable=True)


def undrain_queue() -> HttpCall[Queue]:
    return post("/3/queue/undrain", Queue, is_repeatable=True)


def set_limits(wish: LimitsWish) -> HttpCall[Queue]:
    return HttpCall("PUT", "/3/queue/limits", Queue, body=unstructure(wish))


def list_locks(names: Sequence[str] = ()) -> HttpCall[LockList]:
    return get("/3/locks", LockList, names=tuple(names))


def list_objects(kind: QueryKind, fields: Sequence[str] = (), filter: str = "") -> HttpCall[ObjectList]:
    """Nodes, groups, networks or instances."""
    return get(f"/3/{kind.value}s", ObjectList, fields=tuple(fields), filter=filter)


def query_objects(kind: QueryKind, query: ObjectQuery) -> HttpCall[ObjectRows]:
    """LUXI's query of anything but jobs."""
    return post(f"/3/query/{kind.value}", ObjectRows, query, is_repeatable=True)


def list_fields(kind: QueryKind, names: Sequence[str] = ()) -> HttpCall[FieldDefinitions]:
    return get("/3/fields", FieldDefinitions, what=kind.value, fields=tuple(names))


def get_caller() -> HttpCall[Caller]:
    return get("/3/me", Caller)


def stream_events(topics: Sequence[Topic] = (), ids: Sequence[int] = ()) -> HttpCall[None]:
    """The stream of events; it has no end, and is read by `stream` of a client."""
    return get("/3/events", type(None), topics=tuple(topic.value for topic in topics), ids=tuple(ids))
