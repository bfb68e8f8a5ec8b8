"""What other nodes have of the configuration, and what a new master makes of it; no I/O, no clock."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import attrs
import orjson

from common.errors import Conflict, DamagedFile, InvalidRequest
from common.jsontext import ascii_json
from common.lease.changes import Fate, RemovedFile, WrittenFile, decode_fate
from common.objects.codec import decode_object
from common.objects.config import AnyDisk, AnyInstance, Cluster, Config, Network, Node, NodeGroup
from common.objects.filter import FilterRule
from common.objects.index import ConfigIndex
from common.objects.kinds import NodeUuid
from common.wire import structure
from daemons.wconfd.core.config.configstate import ConfigState, advanced, touched

# The difference of two configurations as changed objects, and a configuration with such objects laid over it. Pure.
#
# Theory. A change of the configuration is committed in etcd by its objects, each under a name of its own
# (`nodes/UUID`, `cluster/cluster`), so that of thousands of objects only the changed ones travel, and a later change of
# an object replaces the earlier one. Serial number and times of the whole are one small object more, `top`. What some
# candidate lacks is laid over its copy when it becomes the master: laying a difference over the configuration before
# gives the one after.
#
# The order of objects in their tables means nothing and is not kept.
#
# Source: DESIGN section 14.


T = TypeVar("T")

# name -> what has become of the object
Difference = Mapping[str, Fate]

TOP: Final = "top"
_CLUSTER: Final = "cluster/cluster"
# table of the configuration -> kind of its objects
_KINDS: Final[Mapping[str, type[object]]] = {
    "nodes": Node,
    "nodegroups": NodeGroup,
    "instances": AnyInstance,  # type: ignore[dict-item]  # settled or forthcoming
    "networks": Network,
    "disks": AnyDisk,  # type: ignore[dict-item]  # as above
    "filters": FilterRule,
}


@attrs.frozen(kw_only=True)
class Top:
    """What the configuration is beside its objects."""

    # uuid of the cluster, so that nobody takes up the changes of another one
    cluster: str
    version: int
    ctime: float
    mtime: float
    serial_no: int


def difference(before: ConfigState, after: ConfigState) -> Difference:
    """What to lay over the first to get the second; empty if they are the same.

    Cost: of tables that both share nothing, of others a look at each object; bytes are compared only of objects that
        are not identical.
    """
    found: dict[str, Fate] = {}
    if _content(before, "cluster", "cluster") != _content(after, "cluster", "cluster"):
        found[_CLUSTER] = WrittenFile(_content(after, "cluster", "cluster"))
    for table in _KINDS:
        found.update(_of_table(table, before, after))
    top = _top(after.config)
    if found or top != _top(before.config):
        found[TOP] = WrittenFile(top)
    return found


def overlay(config: Config, changes: Mapping[str, bytes]) -> Config:
    """The configuration with these objects, each as it is in etcd.

    Args:
        changes: by name, in the order in which they were made; values as of `common.lease.changes.encode_fate`.
    Raises:
        DamagedFile: a name or a value is not ours; with the key.
        Conflict: they are changes of another cluster.
    """
    if TOP in changes:
        config = _with_top(config, changes[TOP])
    tables: dict[str, dict[str, object]] = {}
    for name, value in changes.items():
        if name == TOP:
            continue
        table, _, key = name.partition("/")
        fate = decode_fate(name, value)
        if name == _CLUSTER and isinstance(fate, WrittenFile):
            config = attrs.evolve(config, cluster=_decoded(name, fate.content, Cluster))
        elif table in _KINDS:
            rows = tables.setdefault(table, dict(getattr(config, table)))
            _lay(rows, key, fate, name)
        else:
            raise _foreign(name, "no object of the configuration is called so")
    return attrs.evolve(config, **tables) if tables else config  # type: ignore[arg-type]


def _of_table(table: str, before: ConfigState, after: ConfigState) -> Iterator[tuple[str, Fate]]:
    old: Mapping[str, object] = getattr(before.config, table)
    new: Mapping[str, object] = getattr(after.config, table)
    if old is new:
        return
    for key, value in new.items():
        known = old.get(key)
        if known is value:
            continue
        content = _content(after, table, key)
        if known is None or _content(before, table, key) != content:
            yield f"{table}/{key}", WrittenFile(content)
    for key in old:
        if key not in new:
            yield f"{table}/{key}", RemovedFile()


def _content(state: ConfigState, table: str, key: str) -> bytes:
    return state.encoded.object(table, key)


def _top(config: Config) -> bytes:
    top = Top(
        cluster=config.cluster.uuid,
        version=config.version,
        ctime=config.ctime,
        mtime=config.mtime,
        serial_no=config.serial_no,
    )
    return ascii_json(attrs.asdict(top))


def _with_top(config: Config, value: bytes) -> Config:
    fate = decode_fate(TOP, value)
    if not isinstance(fate, WrittenFile):
        raise _foreign(TOP, "it is never removed")
    try:
        top = structure(orjson.loads(fate.content), Top, TOP)
    except (orjson.JSONDecodeError, InvalidRequest) as error:
        raise _foreign(TOP, str(error)) from error
    if top.cluster != config.cluster.uuid:
        raise Conflict(
            f"etcd has changes of the cluster with the uuid '{top.cluster}', and this node is of the one with "
            f"'{config.cluster.uuid}'; give each cluster a prefix of its own in '[etcd]'"
        )
    return attrs.evolve(config, version=top.version, ctime=top.ctime, mtime=top.mtime, serial_no=top.serial_no)


def _lay(rows: dict[str, object], key: str, fate: Fate, name: str) -> None:
    match fate:
        case WrittenFile(content):
            rows[key] = _decoded(name, content, _KINDS[name.partition("/")[0]])
        case RemovedFile():
            rows.pop(key, None)
        case _:
            raise _foreign(name, "objects are never archived")


def _decoded(name: str, content: bytes, kind: type[T]) -> T:
    try:
        return decode_object(orjson.loads(content), kind, "object")
    except (orjson.JSONDecodeError, InvalidRequest) as error:
        raise _foreign(name, str(error)) from error


def _foreign(name: str, reason: str) -> DamagedFile:
    return DamagedFile(f"the change '{name}' of the configuration in etcd is not ours: {reason}; remove it", key=name)


# What a node has of the configuration, and what it lacks. Pure.
#
# Theory. The contents of each part are numbered as they are made. A node has the number of each part that it
# acknowledged last, and should have the newest; so only the latest state is sent, and states in between are left out.
#
# What a failed call leaves on a node is unknown, and counts as nothing. After a failure the node may also have been
# set up anew, so it gets everything again, unless the daemon itself has refused one part.
#
# A request without a reply may be carried out late, even after one that was sent later: a stopped daemon finds both
# when it goes on. Then the node is in doubt, and gets everything once more when its daemon must have ended the late
# ones.


class Part(enum.Enum):
    """A part of the configuration; in the order of sending, as node daemons obey only whom ssconf names."""

    # for all nodes
    SSCONF = "ssconf"
    # for master candidates
    CONFIG = "config.data"
    # files of ours, beside the configuration
    SCHEDULES = "schedules.data"
    RESOURCES = "resources.data"
    SESSIONS = "sessions.data"


class CallFailure(enum.Enum):
    # the daemon has replied with a refusal, or this part could not be sent for a reason of our own
    REFUSED = "refused"
    # nothing was sent, or nothing can be carried out any more
    SILENT = "silent"
    # the request may be carried out, now or later
    UNKNOWN = "unknown"


@attrs.frozen
class NodeHolding:
    """What one node has, as far as known; a value."""

    # numbers of the contents that it has; no number: nothing that is known of
    numbers: Mapping[Part, int] = attrs.field(factory=dict)
    # whether requests without a reply may still be carried out
    in_doubt: bool = False

    def lacks(self, newest: Mapping[Part, int]) -> Part | None:
        """The part to send next; None: it has all. Args: newest: numbers of what the node should have."""
        return next(iter(self.lacking(newest)), None)

    def lacking(self, newest: Mapping[Part, int]) -> Sequence[Part]:
        """All parts that it lacks, in the order of sending."""
        return [part for part in Part if part in newest and self.numbers.get(part) != newest[part]]

    def received(self, part: Part, number: int) -> "NodeHolding":
        """After it has acknowledged this content."""
        return attrs.evolve(self, numbers={**self.numbers, part: number})

    def failed(self, part: Part, failure: CallFailure) -> "NodeHolding":
        """After a call with this part has failed."""
        if failure is CallFailure.REFUSED:
            return attrs.evolve(self, numbers={each: at for each, at in self.numbers.items() if each is not part})
        return NodeHolding(in_doubt=self.in_doubt or failure is CallFailure.UNKNOWN)

    def anew(self) -> "NodeHolding":
        """When it is to get everything again."""
        return NodeHolding(in_doubt=self.in_doubt)

    def settled(self) -> "NodeHolding":
        """No late request can arrive any more; after a doubt it gets everything again."""
        return NodeHolding() if self.in_doubt else self


# Naming the master in the configuration. Pure.
#
# Theory. Who is the master is decided by the lease; the configuration only says it to all others. The new master must
# be a candidate that is not offline. Roles of other nodes stay: whether the old master lives is not known, and an
# offline node comes back only by an operator's word.
#
# Source: DESIGN section 14; masterfailover.md 3.


def with_master(config: Config, name: str, now: float) -> tuple[Config, bool]:
    """The configuration with this node as the master, and whether it is a change.

    Args:
        name: of the node.
        now: seconds since the epoch.
    Raises: Conflict: there is no such node.
    """
    node = next((each for each in config.nodes.values() if each.name == name), None)
    if node is None:
        known = ", ".join(each.name for each in ConfigIndex(config).nodes)
        raise Conflict(
            f"this node is called '{name}', and the configuration has only {known}; set 'node_name' in '[cluster]'"
        )
    fit = node if node.master_candidate and not (node.offline or node.drained) else _as_candidate(node, now)
    if fit is node and config.cluster.master_node == node.uuid:
        return config, False
    cluster = touched(attrs.evolve(config.cluster, master_node=NodeUuid(node.uuid)), now)
    nodes = config.nodes if fit is node else {**config.nodes, NodeUuid(node.uuid): fit}
    return advanced(config, attrs.evolve(config, cluster=cluster, nodes=nodes), now), True


def _as_candidate(node: Node, now: float) -> Node:
    """A master is a candidate, whatever it was before."""
    return touched(attrs.evolve(node, master_candidate=True, offline=False, drained=False), now)
