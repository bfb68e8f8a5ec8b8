"""A keeperd that is played: it wins the mastership for a node, in a real etcd or in none, so that its daemons start.

keeper = PlayedKeeper(cluster.paths, "node1.test", etcd_url, "/test1/")
grant = keeper.win()             # the keys of a master are in etcd; grant, deadline and epoch are on the node
cluster.start("wconfd", "forkserver", "luxid")
keeper.usurp("node2.test")       # another node has won: etcd refuses what this one writes from now on
keeper.pass_deadline()           # the mastership has run out: the daemons end by themselves
"""

import base64
import json
import urllib.request
from typing import Any

from common.lease.deadline import DeadlineWriter, boottime
from common.lease.grant import Grant, write_grant
from common.lease.records import EtcdKeys, Fence, LastMaster, MasterRecord, encode
from common.paths import Paths

# so long that no test needs a renewal
LONG_S = 3600.0


def settings_of_lease(node: str, *etcd_urls: str, prefix: str = "/gantry/", more: str = "") -> str:
    """The settings file of a node with a lease. Args: more: lines of the table `cluster`, then further tables."""
    endpoints = ", ".join(f'"{url}"' for url in etcd_urls)
    return (
        f'[etcd]\nendpoints = [{endpoints}]\nprefix = "{prefix}"\n\n'
        f'[cluster]\nreplication = "etcd"\nnode_name = "{node}"\n{more}'
    )


class Gateway:
    """A member of etcd, asked in the plainest way."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, path: str, body: object) -> Any:
        with urllib.request.urlopen(f"{self._url}/v3/{path}", json.dumps(body).encode(), timeout=30) as reply:
            return json.load(reply)

    def grant(self, ttl_s: float) -> int:
        """Make a lease."""
        return int(self.call("lease/grant", {"TTL": int(ttl_s)})["ID"])


class PlayedKeeper:
    """Args: etcd_url: of a member, without authentication; None: there is no etcd, its numbers are made up."""

    def __init__(self, paths: Paths, node: str, etcd_url: str | None = None, prefix: str = "/gantry/") -> None:
        self._paths = paths
        self._node = node
        self._gateway = None if etcd_url is None else Gateway(etcd_url)
        self._keys = EtcdKeys(prefix)
        self._writer = DeadlineWriter(paths.deadline_file)
        self._epoch = 0

    def win(self, valid_s: float = LONG_S) -> Grant:
        """Become the master with the next epoch, and let the daemons start; its lease lasts as long as the test."""
        fence, cluster_id = self._campaign(self._node)
        grant = Grant(self._node, f"played-{fence.epoch}", fence, cluster_id, LONG_S)
        self._paths.epoch_file.write_text(f"{fence.epoch} {self._node}\n")
        self._writer.set(boottime() + valid_s)
        write_grant(self._paths.grant_file, grant)
        return grant

    def usurp(self, node: str) -> Fence:
        """Let another node become the master in etcd; nothing on this node tells of it."""
        fence, _ = self._campaign(node)
        return fence

    def prolong(self, valid_s: float) -> None:
        self._writer.set(boottime() + valid_s)

    def pass_deadline(self) -> None:
        """Let the mastership run out; who looks sees it, who waits wakes at the deadline that he saw last."""
        self._writer.set(0)

    def take_away(self) -> None:
        """Remove the grant, as keeperd does before it stops the daemons."""
        self._paths.grant_file.unlink(missing_ok=True)

    def _campaign(self, node: str) -> tuple[Fence, str]:
        if self._gateway is None:
            self._epoch += 1
            return Fence(self._epoch, 100 + self._epoch, 100 + self._epoch), "1"
        self._gateway.call("kv/deleterange", {"key": _b64(self._keys.master)})
        found = self._gateway.call("kv/range", {"key": _b64(self._keys.epoch)}).get("kvs", [])
        epoch = 1 + (int(base64.b64decode(found[0]["value"])) if found else 0)
        record = MasterRecord(node=node, nonce=f"played-{epoch}", epoch=epoch, ttl_s=LONG_S)
        last = LastMaster(node=node, epoch=epoch, boot_id="played", ttl_s=LONG_S)
        lease = str(self._gateway.grant(LONG_S))
        puts: list[dict[str, Any]] = [
            {"key": _b64(self._keys.master), "value": _b64(encode(record)), "lease": lease},
            {"key": _b64(self._keys.epoch), "value": _b64(str(epoch))},
            {"key": _b64(self._keys.last_master), "value": _b64(encode(last))},
        ]
        done = self._gateway.call("kv/txn", {"success": [{"request_put": put} for put in puts]})
        # all changes of a transaction have its revision
        revision = int(done["header"]["revision"])
        return Fence(epoch, revision, revision), str(done["header"]["cluster_id"])


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
