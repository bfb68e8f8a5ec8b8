"""LUXI requests for what is read, and the form of the replies.

Source: rapi.md 6.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self, TypeVar

import attrs

from common.errors import GantryError, InvalidRequest, NotFound, ProtocolError, RemoteError, Unavailable
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from daemons.rapid.refusals import RequestRefused, status_of
from protocol.luxi.queries import (
    JobSnapshot,
    Query,
    QueryGroups,
    QueryInstances,
    QueryNetworks,
    QueryNodes,
    Rows,
    WaitForJobChange,
)
from protocol.luxi.queue import ReplaceFilter
from protocol.messages import Request

# The query string of a request.
#
# Source: rapi.md 3.


@attrs.frozen
class Arguments:
    """Parameters of the query string: one without a value is as none at all, of several the first counts."""

    _pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        return cls(tuple((name, value) for name, value in pairs if value))

    def __contains__(self, name: str) -> bool:
        return any(name == each for each, _ in self._pairs)

    def text(self, name: str) -> str | None:
        return next(iter(self.texts(name)), None)

    def texts(self, name: str) -> tuple[str, ...]:
        """All values of a parameter that may be repeated."""
        return tuple(value for each, value in self._pairs if each == name)

    def required(self, name: str) -> str:
        """Raises: InvalidRequest: it is missing."""
        value = self.text(name)
        if value is None:
            raise InvalidRequest(f"the query string lacks '{name}'; add '?{name}=VALUE'")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Whether a number other than 0 is given. Raises: InvalidRequest: it is no whole number."""
        value = self.text(name)
        try:
            return default if value is None else int(value) != 0
        except ValueError:
            raise InvalidRequest(f"'{name}' in the query string must be 0 or 1, got {value!r:.60}") from None

    def words(self, name: str) -> tuple[str, ...] | None:
        """The parts of a list with commas, without blanks around them; None: the parameter is missing."""
        value = self.text(name)
        return None if value is None else tuple(part.strip() for part in value.split(","))


# The fields of each kind of things, in the order of Ganeti's replies.
#
# Source: rapi.md 6.


# fmt: off
_AGE: Final = ("ctime", "mtime", "uuid", "serial_no", "tags")
JOBS: Final = ("id", "ops", "status", "summary", "opstatus", "received_ts", "start_ts", "end_ts")
JOB: Final = (*JOBS, "oplog", "opresult")
RULE: Final = ("watermark", "priority", "predicates", "action", "reason_trail", "uuid")
NODE: Final = (
    "name", "offline", "master_candidate", "drained", "dtotal", "dfree", "sptotal", "spfree", "mtotal", "mnode",
    "mfree", "pinst_cnt", "sinst_cnt", "ctotal", "cnos", "cnodes", "csockets", "pip", "sip", "role", "pinst_list",
    "sinst_list", "master_capable", "vm_capable", "ndparams", "group.uuid", *_AGE,
)
GROUP: Final = (
    "alloc_policy", "name", "node_cnt", "node_list", "ipolicy", "custom_ipolicy", "diskparams", "custom_diskparams",
    "ndparams", "custom_ndparams", *_AGE,
)
NETWORK: Final = (
    "name", "network", "gateway", "network6", "gateway6", "mac_prefix", "free_count", "reserved_count", "map",
    "group_list", "inst_list", "external_reservations", *_AGE,
)
INSTANCE: Final = (
    "name", "admin_state", "os", "pnode", "snodes", "disk_template", "nic.ips", "nic.macs", "nic.modes", "nic.uuids",
    "nic.names", "nic.links", "nic.networks", "nic.networks.names", "nic.bridges", "network_port", "disk.sizes",
    "disk.spindles", "disk_usage", "disk.uuids", "disk.names", "beparams", "hvparams", "oper_state", "oper_ram",
    "oper_vcpus", "status", "custom_hvparams", "custom_beparams", "custom_nicparams", "custom_osparams", *_AGE,
)
OS_NAMES: Final = ("name", "variants")
OS: Final = (
    "name", "valid", "variants", "parameters", "api_versions", "blacklisted", "hidden", "trusted",
)
# what an old server lacks; in any order
FEATURES: Final = (
    "instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1",
)
# fmt: on


# Bodies of requests: an object, and its old names.
#
# Source: rapi.md 3.


T = TypeVar("T")

_WORDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    type(None): "null",
}


def object_of(body: object) -> dict[str, object]:
    """The body, which must be an object. Raises: InvalidRequest: it is none, or there is no body."""
    if not isinstance(body, dict):
        raise InvalidRequest(f"the body must be a JSON object, got {word_for(body)}")
    return body


def optional_object(body: object) -> dict[str, object]:
    """The body; no body is an empty object. Raises: InvalidRequest: it is no object."""
    return {} if body is None else object_of(body)


def member(body: Mapping[str, object], name: str, kind: type[T], default: T) -> T:
    """A member of an object; null and absence mean the default. Raises: InvalidRequest: it has another type."""
    return default if body.get(name) is None else given_member(body, name, kind, default)


def given_member(body: Mapping[str, object], name: str, kind: type[T], default: T) -> T:
    """A member of an object; absence means the default. Raises: InvalidRequest: it has another type, or is null."""
    if name not in body:
        return default
    value = body[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequest(f"'{name}' in the body must be {_WORDS[kind]}, got {word_for(value)}")
    return value


def check_names(body: Mapping[str, object], known: Iterable[str]) -> None:
    """Raises: InvalidRequest: the object has other members."""
    unknown = sorted(body.keys() - set(known))
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidRequest(f"the body has unknown parameters: {names}; known are {', '.join(known)}")


def renamed(body: Mapping[str, object], renames: Mapping[str, str]) -> dict[str, object]:
    """The object with new names for old ones.

    Raises: InvalidRequest: it has a parameter under both names.
    """
    for old, new in renames.items():
        if old in body and new in body:
            raise InvalidRequest(f"the body has both '{old}' and '{new}', which are the same; leave one out")
    return {renames.get(name, name): value for name, value in body.items()}


def word_for(value: object) -> str:
    """The kind of a JSON value in words."""
    return _WORDS.get(type(value), "something else")


Row = Sequence[object]
ByNames = Callable[[tuple[str, ...], tuple[str, ...], bool], Request[Rows]]


def as_objects(fields: Sequence[str], rows: Iterable[Row]) -> list[dict[str, object]]:
    """Each row as an object with the fields' names."""
    return [dict(zip(fields, row, strict=True)) for row in rows]


def as_links(collection: str, key: str, rows: Iterable[Row]) -> list[dict[str, object]]:
    """Each row, of a name or id, as an object with it and with its URI."""
    return [{key: row[0], "uri": f"/2/{collection}/{row[0]}"} for row in rows]


@attrs.frozen
class ObjectCollection:
    """A kind of objects that are listed, and looked up by name or UUID."""

    # name of the collection in the URI
    collection: str
    # key of the name in a list
    key: str
    fields: tuple[str, ...]
    ask: ByNames
    # adds old names of fields to an item
    extend: Callable[[dict[str, object]], dict[str, object]] = lambda item: item
    # whether the old names are in bulk lists, too
    extends_bulk: bool = False

    def listing(self, arguments: Arguments) -> Request[Rows]:
        fields = self.fields if arguments.flag("bulk") else ("name",)
        return self.ask((), fields, arguments.flag("lock"))

    def list_of(self, arguments: Arguments, rows: Rows) -> list[dict[str, object]]:
        if not arguments.flag("bulk"):
            return sorted(as_links(self.collection, self.key, rows), key=lambda link: str(link[self.key]))
        items = as_objects(self.fields, rows)
        return [self.extend(item) for item in items] if self.extends_bulk else items

    def looking_up(self, name: str, arguments: Arguments) -> Request[Rows]:
        return self.ask((name,), self.fields, arguments.flag("lock"))

    def item_of(self, name: str, rows: Rows) -> dict[str, object]:
        """Raises: NotFound: there is none."""
        return self.extend(as_objects(self.fields, [only(rows, self.collection, name)])[0])


def only(rows: Rows, collection: str, name: str) -> Row:
    """Raises: NotFound: there is none."""
    if not rows:
        raise NotFound(f"there is no '{name}' among the {collection}")
    return rows[0]


def _with_secondary_ip(node: dict[str, object]) -> dict[str, object]:
    return {**node, "secondary_ip": node["sip"]}


def _with_memory(instance: dict[str, object]) -> dict[str, object]:
    beparams = instance["beparams"]
    if not isinstance(beparams, dict) or "maxmem" not in beparams:
        return instance
    return {**instance, "beparams": {**beparams, "memory": beparams["maxmem"]}}


NODES: Final = ObjectCollection("nodes", "id", NODE, QueryNodes, _with_secondary_ip)
INSTANCES: Final = ObjectCollection("instances", "id", INSTANCE, QueryInstances, _with_memory, extends_bulk=True)
GROUPS: Final = ObjectCollection("groups", "name", GROUP, QueryGroups)
NETWORKS: Final = ObjectCollection("networks", "name", NETWORK, QueryNetworks)


def with_old_names(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts about the cluster, also under the names that old clients read."""
    return {**facts, "vg_name": facts["volume_group_name"], "drbd_helper": facts["drbd_usermode_helper"]}


def query_of(what: QueryKind, arguments: Arguments, body: object = None, *, has_body: bool) -> Query:
    """The query of a request.

    Args: has_body: the verb is the one whose parameters are in the body.
    Raises: InvalidRequest: it names no fields, or is malformed.
    """
    given = object_of(body) if has_body else {}
    listed = member(given, "fields", list, None)
    fields = arguments.words("fields") if listed is None else tuple(map(_field, listed))
    if fields is None:
        raise InvalidRequest("no fields are asked for; add '?fields=NAME,NAME', or 'fields' to the body")
    condition = given.get("qfilter")
    condition = given.get("filter") if condition is None else condition
    return Query(what, fields, None if condition is None else Expression.from_wire(condition))


def _field(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidRequest(f"a field is a string, got {name!r:.60}")
    return name


# A filter rule in the body of a request.
#
# Source: rapi.md 6.4; filters design, "REST API".


_NAMES: Final = ("priority", "predicates", "action", "reason")


def rule_of(uuid: str | None, body: object) -> ReplaceFilter:
    """The request that sets the rule; what the body does not say has the defaults, and null is no value.

    Args: uuid: None: a new rule.
    Raises: InvalidRequest: the body is no object, has unknown parameters, or values of a wrong type; what is in
        predicates and action is luxid's to judge.
    """
    given = object_of(body)
    check_names(given, _NAMES)
    return ReplaceFilter(
        uuid,
        given_member(given, "priority", int, 0),
        tuple(given_member(given, "predicates", list, [])),
        _action(given),
        tuple(given_member(given, "reason", list, [])),
    )


def _action(body: Mapping[str, object]) -> object:
    """Raises: InvalidRequest: it is null."""
    action = body.get("action", "CONTINUE")
    if action is None:
        raise InvalidRequest("'action' in the body must be a word such as PAUSE, or [RATE_LIMIT, n], got null")
    return action


# Waiting for a job: the body of the request, and the reply.
#
# Source: rapi.md 6.3.


# seconds
LONGEST_WAIT_S: Final = 10.0
_LOG: Final = "oplog"


@attrs.frozen
class JobWait:
    """What a client asks to be told of a job."""

    job_id: JobId
    fields: tuple[str, ...]
    previous: list[object] | None
    previous_serial: int | None

    def call(self) -> WaitForJobChange:
        return WaitForJobChange(self.job_id, self.fields, self.previous, self.previous_serial, LONGEST_WAIT_S)

    @property
    def archived_fields(self) -> tuple[str, ...]:
        """What to query of a job that does not change any more."""
        return (*self.fields, "status", _LOG)

    def reply_of_archived(self, row: Sequence[object]) -> dict[str, object] | None:
        """The reply for a row of `archived_fields`; None: there is no such job."""
        *values, status, log = row
        if status is None:
            return None
        after = self.previous_serial or 0
        entries = [entry for op in log if op for entry in op if entry[0] > after] if isinstance(log, list) else []
        return {"job_info": values, "log_entries": entries}


def wait_of(job_id: JobId, body: object) -> JobWait:
    """Raises: InvalidRequest: there is no body, or it is malformed."""
    given = object_of(body)
    fields = member(given, "fields", list, None)
    if fields is None or not all(isinstance(field, str) for field in fields):
        raise InvalidRequest("'fields' in the body must be a list of strings: the fields to wait for")
    previous = member(given, "previous_job_info", list, None)
    return JobWait(job_id, tuple(map(str, fields)), previous, member(given, "previous_log_serial", int, None))


def reply_of(change: JobSnapshot) -> dict[str, object]:
    return {"job_info": change.values, "log_entries": change.entries}


# The status of an error, as Ganeti's clients know it.
#
# Theory. Ganeti sends 500 for most errors of its queue, and 502 for requests that luxid does not understand, which
# looks like an outage. Here an error that the client has made is 4xx: 400 for what is wrong, 404 for what is not there,
# 403 for what the caller may not do, 409 for what the state of things does not allow.
#
# Source: rapi.md 4.


# codes of Ganeti's errors about what is asked; others are about the state of things
_STATUS_OF_REASON: Final = {"unknown_entity": 404, "wrong_input": 400}


def ganetis_status(error: GantryError) -> int:
    """The status of a reply with this error."""
    if isinstance(error, RemoteError):
        reason = _reason(error) if error.wire_name == "OpPrereqError" else ""
        return _STATUS_OF_REASON.get(reason, status_of(error))
    if isinstance(error, Unavailable):
        # luxid is not there, or went before it answered
        return 504
    return 502 if isinstance(error, ProtocolError) else status_of(error)


def refusal_of(error: GantryError) -> RequestRefused:
    """The error with its status."""
    return error if isinstance(error, RequestRefused) else RequestRefused(ganetis_status(error), error.message)


def _reason(error: RemoteError) -> str:
    args = error.wire_args()
    return str(args[1]) if len(args) > 1 else ""


# The operating systems, from the result of the job that finds them.
#
# Source: rapi.md 6.11.


def names_of(rows: Iterable[Sequence[object]]) -> list[str]:
    """Name and variant, or the name alone where there are no variants."""
    names: list[str] = []
    for name, variants in rows:
        found = [str(variant) for variant in variants] if isinstance(variants, list) else []
        names += [f"{name}+{variant}" for variant in found] or [str(name)]
    return names


def objects_of(fields: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """All about each, with parameters as objects."""
    return [{**system, "parameters": _parameters(system["parameters"])} for system in as_objects(fields, rows)]


def _parameters(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [{"name": name, "description": description} for name, description in value]
