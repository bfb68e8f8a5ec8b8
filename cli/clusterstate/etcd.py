"""How commands begin and end the use of etcd."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import orjson

from cli.context import command_line
from common.errors import Conflict, DamagedFile, InvalidRequest, NotFound, Unavailable
from common.lease.records import EtcdKeys, LastMaster, decode
from common.nodes.failover import CopiesHeld, NodeSays
from common.nodes.mastership import read_seen
from common.nodes.nodeplace import master_name
from common.paths import Paths
from common.settings import Settings
from common.system.running import find_daemon

# Whether the settings name an etcd, for commands that make a cluster with a lease.


def check_etcd_named(settings: Settings) -> None:
    """Raises: InvalidRequest: the cluster has a lease, and no member of etcd is named, or one by no URL."""
    if not settings.cluster.has_lease:
        return
    if not settings.etcd.endpoints:
        raise InvalidRequest(
            'replication = "etcd" needs an etcd: name its members in [etcd] of gantry.toml, as in '
            'endpoints = ["https://10.0.0.1:2379"]; deploy/etcd tells how to run one'
        )
    # imported late: most installations are one machine
    from protocol.etcd.address import EtcdAddress

    EtcdAddress.of(settings)


# What commands do that begin or end the use of etcd: while no daemon of the master runs here.
#
# Source: DESIGN section 14.


if TYPE_CHECKING:
    from protocol.etcd.client import EtcdClient

T = TypeVar("T")
# those that write, or would become the master
_WRITERS: Final = ("keeperd", "luxid", "wconfd")


def check_down(settings: Settings) -> None:
    """Raises: Conflict: a daemon of the master, or keeperd, runs here."""
    for name in _WRITERS:
        if find_daemon(settings.paths, name) is not None:
            raise Conflict(f"{name} runs on this node; stop its daemons first: {command_line('gantry', 'down')}")


def check_etcd_free(settings: Settings) -> None:
    """Raises: Conflict: etcd has a cluster under this prefix. Unavailable: etcd was not read. InvalidRequest."""
    try:
        last = on_etcd(settings, _found_there)
    except Unavailable as error:
        raise Unavailable(
            f"nothing was made, as etcd may have a cluster already, and it was not read: {error.message}; see that it "
            "runs, and run this again"
        ) from error
    if last is None:
        return
    raise Conflict(
        f"etcd has a cluster under '{settings.etcd.prefix}' already{last}; no second one is made here, where its files "
        "are missing; to make this machine a node of it: gnt-cluster join-token on its master, with --readd NODE if it "
        "was one, then gantry join; if this was its master, and no other node has the files, bring them back from a "
        "backup; if the cluster is another one, or given up, set another 'prefix' in [etcd] of gantry.toml"
    )


async def _found_there(client: "EtcdClient", keys: EtcdKeys) -> str | None:
    """What etcd tells of the last master, perhaps nothing; None: it has no cluster."""
    from protocol.etcd.kv import Get, Transaction

    gets = [Get(keys.prefix, is_prefix=True, keys_only=True, limit=1), Get(keys.last_master)]
    some, last = (await client.transact(Transaction((), gets))).found
    if not some:
        return None
    for pair in last:
        record = decode(pair.value, LastMaster, pair.key)
        return f", whose last master was '{record.node}' with epoch {record.epoch}"
    return ""


def own_says(settings: Settings) -> NodeSays:
    """How far this node's files have come. Raises: NotFound: it has no configuration. DamagedFile, OSError."""
    paths = settings.paths
    return NodeSays(
        settings.cluster.own_name, master_name(paths), read_seen(paths.epoch_file), CopiesHeld(*_serials(paths))
    )


def _serials(paths: Paths) -> tuple[int, int]:
    try:
        config = orjson.loads(paths.config_data.read_bytes())["serial_no"]
        queue = int(paths.serial_file.read_bytes()) if paths.serial_file.exists() else 0
    except FileNotFoundError:
        raise NotFound(
            f"there is no cluster on this node: '{paths.config_data}' is missing; run this where its files are"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"'{paths.config_data}' or '{paths.serial_file}' is damaged: {error}") from error
    return int(config), queue


def on_etcd(settings: Settings, work: Callable[["EtcdClient", EtcdKeys], Awaitable[T]]) -> T:
    """Let something be done with etcd. Raises: InvalidRequest: the settings name none. Unavailable; as `work`."""
    check_etcd_named(settings)
    # imported late: no other command needs it
    import trio

    from protocol.etcd.address import EtcdAddress
    from protocol.etcd.client import EtcdClient

    async def run() -> T:
        async with EtcdClient(EtcdAddress.of(settings)) as client:
            return await work(client, EtcdKeys(settings.etcd.prefix))

    return trio.run(run)
