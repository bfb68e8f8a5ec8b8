"""Recorded queries of live data, sent to a luxid whose node tells what the recorded one told.

And what Ganeti's programs ask at each run: their cells must have values, or the programs end in an error.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from common.nodes.certificates import make_missing
from tests.daemon.luxid.queries.test_query_replay import EXCHANGES, LIVE, OF_THE_CLUSTER, without_docs
from tests.support.cluster import Cluster
from tests.support.configs import recorded_json
from tests.support.machines.noded import recorded_calls
from tests.support.machines.simulated import SimulatedNodes, telling
from tests.support.sockets.ports import free_port
from tests.support.sockets.rawsocket import RawCaller

BOOT_ID: Final = "17f9c0d3-cf56-4beb-9d2e-47a3c41dd1e1"
# what the recorded rows were made of
HYPERVISOR: Final = {
    "memory_total": 24105,
    "memory_dom0": 123,
    "memory_free": 23104,
    "cpu_total": 2,
    "cpu_dom0": 2,
    "cpu_nodes": 1,
    "cpu_sockets": 1,
}
NAMES: Final = ("inst1.peer.test", "inst2.peer.test")
CONSOLES: Final = {
    name: {"instance": name, "kind": "msg", "message": "Console not available for fake hypervisor"} for name in NAMES
}
FACTS: Final = {
    "node_info": [BOOT_ID, [], [HYPERVISOR]],
    "all_instances_info": {NAMES[0]: {"memory": 128, "vcpus": 1, "state": 0, "time": 0}},
    "instance_console_info": CONSOLES,
}
# the node has another address, so that it can be simulated
ADDRESSES: Final = {"pip", "sip"}
VOLUME_GROUP: Final = [
    {"type": "lvm-vg", "name": "xenvg", "storage_free": 6143, "storage_size": 10239},
    {"type": "lvm-pv", "name": "xenvg", "storage_free": 0, "storage_size": 0},
]


@contextlib.contextmanager
def _told(root: Path, config: dict[str, Any], facts: Mapping[str, Any]) -> Iterator[Cluster]:
    """A luxid with this configuration of one node, whose node daemon tells these facts."""
    port = free_port()
    settings = f'[cluster]\nreplication = "nodes"\nnode_name = "node1.peer.test"\n[noded]\nport = {port}\n'
    # on a slow machine, too, the node replies in time
    settings += "[luxid]\nlive_data_s = 60.0\n"
    (node,) = config["nodes"].values()
    node |= {"primary_ip": "127.0.0.1", "secondary_ip": "127.0.0.1"}
    with Cluster(root, settings=settings) as cluster:
        cluster.paths.config_data.write_bytes(orjson.dumps(config))
        make_missing(cluster.paths, "node1.peer.test")
        cluster.paths.ssconf_file("master_node").unlink()
        with SimulatedNodes(cluster.paths, port, {"127.0.0.1": telling(facts)}):
            cluster.start("wconfd", "luxid")
            yield cluster


@pytest.fixture(scope="module")
def luxid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with _told(tmp_path_factory.mktemp("live"), recorded_json(), FACTS) as cluster:
        yield cluster


def _live_exchanges() -> list[dict[str, Any]]:
    found = []
    for exchange in EXCHANGES:
        request, reply = json.loads(exchange["req"]), json.loads(exchange["resp"])
        if reply["success"] and LIVE & set(_fields(request)):
            found.append(exchange)
    return found


def _fields(request: dict[str, Any]) -> list[str]:
    match request:
        case {"method": "Query", "args": ["node" | "instance" | "export", list(fields), _]}:
            return fields
        case {"method": "QueryNodes" | "QueryInstances", "args": [_, list(fields), _]}:
            return fields
        case {"method": "QueryExports"}:
            return ["node", "export"]
        case _:
            return []


def _compared(fields: list[str], rows: list[list[Any]]) -> list[dict[str, Any]]:
    left_out = OF_THE_CLUSTER | ADDRESSES
    return [{name: cell for name, cell in zip(fields, row, strict=True) if name not in left_out} for row in rows]


@pytest.mark.parametrize("exchange", _live_exchanges(), ids=lambda exchange: exchange["name"])
def test_live_cells_are_as_they_were_recorded(luxid: Cluster, exchange: dict[str, Any]) -> None:
    request, expected = json.loads(exchange["req"]), json.loads(exchange["resp"])["result"]
    fields = _fields(request)

    with RawCaller(luxid.paths.query_socket) as caller:
        reply = caller.call(request["method"], *request["args"])["result"]

    if request["method"] == "Query":
        assert without_docs(reply["fields"]) == without_docs(expected["fields"])
        reply, expected = reply["data"], expected["data"]
    assert _compared(fields, reply) == _compared(fields, expected)


def test_recorded_live_queries_of_all_kinds_are_among_them() -> None:
    kinds = {json.loads(each["req"])["method"] for each in _live_exchanges()}

    assert kinds == {"Query", "QueryInstances", "QueryExports"}


def test_recorded_replies_of_a_real_node_daemon_give_the_cells_of_node_list(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    replies = [json.loads(call.reply) for call in recorded_calls() if call.procedure == "node_info"]
    names = ["mtotal", "mnode", "mfree", "ctotal", "cnos", "dtotal"]
    told = _told(tmp_path_factory.mktemp("recorded"), recorded_json(), {"node_info": replies[0][1]})
    with told as cluster, RawCaller(cluster.paths.query_socket) as caller:
        rows = caller.call("Query", "node", names, None)["result"]["data"]

    assert len(replies) == 2
    assert rows == [[[0, 24105], [0, 137], [0, 23117], [0, 2], [0, 2], [2, None]]]


# program -> kind, fields, and filter of what it asks; `{group}` is the UUID of the node group
ASKED: Final[dict[str, tuple[str, list[str], Any]]] = {
    "hbal, hinfo, hspace, harep: nodes": (
        "node",
        [
            *("name", "mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "offline", "drained"),
            *("vm_capable", "ndp/spindle_count", "group.uuid", "tags", "ndp/exclusive_storage", "sptotal", "spfree"),
            "ndp/cpu_speed",
        ],
        None,
    ),
    "hbal, hinfo, hspace, harep: instances": (
        "instance",
        [
            *("name", "disk_usage", "be/memory", "be/vcpus", "status", "pnode", "snodes", "tags", "be/auto_balance"),
            *("disk_template", "be/spindle_use", "disk.sizes", "disk.spindles", "forthcoming"),
        ],
        None,
    ),
    "hbal, hinfo, hspace, harep: groups": ("group", ["uuid", "name", "alloc_policy", "ipolicy", "tags"], None),
    "ganeti-watcher: instances": (
        "instance",
        [
            *("name", "status", "admin_state", "admin_state_source", "disks_active", "snodes", "pnode.group.uuid"),
            "snodes.group.uuid",
        ],
        ["=", "pnode.group.uuid", "{group}"],
    ),
    "ganeti-watcher: nodes": ("node", ["name", "bootid", "offline"], ["=", "group.uuid", "{group}"]),
    "gnt-node list": (
        "node",
        ["name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"],
        None,
    ),
    "gnt-node list, filtered": ("node", ["name"], [">", "mfree", 1000]),
    "gnt-instance list, filtered": ("instance", ["name", "status", "oper_ram"], ["==", "status", "running"]),
}


@pytest.fixture(scope="module")
def with_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node with a volume group."""
    config = recorded_json()
    config["cluster"] |= {"enabled_disk_templates": ["plain", "diskless"], "volume_group_name": "xenvg"}
    facts = {**FACTS, "node_info": [BOOT_ID, VOLUME_GROUP, [HYPERVISOR]]}
    with _told(tmp_path_factory.mktemp("storage"), config, facts) as cluster:
        yield cluster


@pytest.mark.parametrize("program", ASKED)
def test_what_ganetis_programs_ask_has_a_value_in_each_cell(with_storage: Cluster, program: str) -> None:
    what, fields, condition = ASKED[program]
    group = next(iter(recorded_json()["nodegroups"]))
    filter = json.loads(json.dumps(condition).replace("{group}", group))

    with RawCaller(with_storage.paths.query_socket) as caller:
        rows = caller.call("Query", what, fields, filter)["result"]["data"]

    assert rows
    assert [[cell[0] for cell in row] for row in rows] == [[0] * len(fields)] * len(rows)


def test_the_console_of_an_instance_comes_with_its_state(with_storage: Cluster) -> None:
    """As `gnt-instance console` asks."""
    with RawCaller(with_storage.paths.query_socket) as caller:
        reply = caller.call("QueryInstances", [NAMES[0]], ["console", "oper_state"], False)

    assert reply["result"] == [[CONSOLES[NAMES[0]], True]]
