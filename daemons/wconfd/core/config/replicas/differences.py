"""The difference of two configurations as changed objects, and a configuration with such objects laid over it. Pure.

Theory. A change of the configuration is committed in etcd by its objects, each under a name of its own
(`nodes/UUID`, `cluster/cluster`), so that of thousands of objects only the changed ones travel, and a later change of
an object replaces the earlier one. Serial number and times of the whole are one small object more, `top`. What some
candidate lacks is laid over its copy when it becomes the master: laying a difference over the configuration before
gives the one after.

The order of objects in their tables means nothing and is not kept.

Source: DESIGN section 14.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import attrs
import orjson

from common.asciijson import ascii_json
from common.errors import Conflict, DamagedFile, InvalidRequest
from common.lease.dirty import Fate, Removed, Written, decode_fate
from common.objects.cluster import Cluster
from common.objects.codec import decode_object
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.filter import FilterRule
from common.objects.instance import AnyInstance
from common.objects.networks.network import Network
from common.objects.node import Node
from common.objects.nodegroup import NodeGroup
from common.wire import structure
from daemons.wconfd.core.config.configstate import ConfigState

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
        found[_CLUSTER] = Written(_content(after, "cluster", "cluster"))
    for table in _KINDS:
        found.update(_of_table(table, before, after))
    top = _top(after.config)
    if found or top != _top(before.config):
        found[TOP] = Written(top)
    return found


def overlay(config: Config, changes: Mapping[str, bytes]) -> Config:
    """The configuration with these objects, each as it is in etcd.

    Args:
        changes: by name, in the order in which they were made; values as of `common.lease.dirty.encode_fate`.
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
        if name == _CLUSTER and isinstance(fate, Written):
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
            yield f"{table}/{key}", Written(content)
    for key in old:
        if key not in new:
            yield f"{table}/{key}", Removed()


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
    if not isinstance(fate, Written):
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
        case Written(content):
            rows[key] = _decoded(name, content, _KINDS[name.partition("/")[0]])
        case Removed():
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
