"""Live data of nodes and instances, asked of node daemons while a query waits (luxid.md 7.6, noded.md 6)."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from protocol.blocking import BlockingClient
from protocol.framing import pack
from protocol.luxi.queries import Query, QueryExports, QueryInstances, QueryNodes
from tests.support.configs import instance_json
from tests.support.machines.fleet import Fleet
from tests.support.machines.nodedaemons import Seen
from tests.support.machines.simulated import (
    NODE_INFO,
    RECORDED_FACTS,
    Node,
    SimulatedNodes,
    add_nodes,
    silent,
    telling,
)
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until

# for tests that wait for nodes that hang: short, but the others reply in that time on any machine
LIMIT_S = 6.0
# for tests in which no node hangs
PATIENT_S = 60.0
RUNS = {"memory": 512, "vcpus": 2, "state": 0, "time": 1.5}
# what Ganeti's program shows if nothing is named
GNT_NODE_LIST = ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt")
LIVE_CALLS = ("node_info", "all_instances_info", "instance_console_info", "export_list")
STATES = ("name", "status", "oper_state", "oper_ram")


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path is short enough for the sockets of all nodes."""
    return tmp_path_factory.mktemp("live")


@contextlib.contextmanager
def _fleet(root: Path, count: int, limit_s: float = LIMIT_S) -> Iterator[Fleet]:
    with Fleet(root, count, cluster=f"[luxid]\nlive_data_s = {limit_s}\n") as fleet:
        yield fleet


def _start(fleet: Fleet) -> None:
    fleet.master.start("wconfd", "luxid")


def _ask(
    fleet: Fleet, fields: tuple[str, ...], filter: Any = None, what: QueryKind = QueryKind.NODE
) -> tuple[list[list[Any]], list[str]]:
    """The cells, and the notes beside them."""
    notes: list[str] = []
    with BlockingClient(fleet.master.paths.query_socket, noted=notes.append) as client:
        reply = client.call(Query(what, fields, None if filter is None else Expression.from_wire(filter)))
    return [[list(cell) for cell in row] for row in reply.data], notes


def _asked(seen: Seen) -> list[tuple[str, Any]]:
    """The calls for live data that a node has got; candidates also get copies."""
    calls = [(request.target.decode(), body) for request, body in zip(seen.requests, seen.bodies, strict=False)]
    return [(name.removeprefix("/"), json.loads(body)) for name, body in calls if name.removeprefix("/") in LIVE_CALLS]


def test_each_node_has_its_facts_or_its_error_in_its_cells(root: Path) -> None:
    garbage = telling({"node_info": {"not": "facts"}})
    with _fleet(root, 5) as fleet:
        live, frozen, dead, garbled, offline = fleet.nodes
        config = orjson.loads(fleet.master.paths.config_data.read_bytes())
        config["nodes"][offline.name.partition(".")[0]] |= {"offline": True, "master_candidate": False}
        fleet.master.paths.config_data.write_bytes(orjson.dumps(config))
        with SimulatedNodes(fleet.master.paths, fleet.port, {garbled.ip: garbage, offline.ip: garbage}) as simulated:
            fleet.master.start("noded")
            for node in (live, frozen):
                node.start()
            fleet.master.start("wconfd")
            for paths in (fleet.master.paths, live.paths):
                # until then a node obeys nobody
                wait_until(paths.ssconf_file("master_candidates_certs").exists, what="the node knows its master")
            fleet.master.start("luxid")
            frozen.freeze()

            rows, notes = _ask(fleet, ("name", "mtotal", "bootid", "mfree", *GNT_NODE_LIST))
            classic = fleet.master.luxi(QueryNodes((live.name, dead.name), ("name", "mtotal")))
            asked_offline = _asked(simulated[offline.ip])
    memory = _total_memory()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    no_data = [[2, None]] * 3

    assert [row[:3] for row in rows[:2]] == [
        [[0, "node1.test"], [0, memory], [0, boot_id]],
        [[0, live.name], [0, memory], [0, boot_id]],
    ]
    assert [row[1:4] for row in rows[2:]] == [no_data, no_data, no_data, [[4, None]] * 3]
    assert [cell[0] for cell in rows[0][4:]] == [0, 2, 2, 0, 0, 0, 0, 0]
    assert classic == ((live.name, memory), (dead.name, None))
    assert asked_offline == []
    assert [node.name for node in fleet.nodes if any(f"'{node.name}'" in note for note in notes)] == [
        frozen.name,
        dead.name,
        garbled.name,
    ]


def _total_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemTotal:"))


@pytest.fixture
def fleet(root: Path) -> Iterator[Fleet]:
    """A master without a node daemon, and three more nodes that a test simulates."""
    with _fleet(root, 3, PATIENT_S) as fleet:
        yield fleet


@contextlib.contextmanager
def _simulated(fleet: Fleet, **nodes: Node) -> Iterator[SimulatedNodes]:
    """Args: nodes: behaviour by short name; the others refuse to tell anything of themselves."""
    ips = {node.name.partition(".")[0]: node.ip for node in fleet.nodes} | {"node1": "127.0.0.1"}
    behaviours = {ip: nodes.get(name, telling({})) for name, ip in ips.items()}
    with SimulatedNodes(fleet.master.paths, fleet.port, behaviours) as found:
        yield found


def test_all_nodes_are_asked_before_the_first_has_replied(fleet: Fleet) -> None:
    asked = threading.Semaphore(0)
    everyone = threading.Event()

    async def facts() -> object:
        asked.release()
        await trio.to_thread.run_sync(everyone.wait)
        return NODE_INFO

    def open_when_all_are_asked() -> None:
        for _ in range(4):
            asked.acquire()
        everyone.set()

    gate = threading.Thread(target=open_when_all_are_asked, daemon=True)
    gate.start()
    node = telling({"node_info": facts})
    with _simulated(fleet, node1=node, node2=node, node3=node, node4=node):
        _start(fleet)
        rows, notes = _ask(fleet, ("mfree",))
        everyone.set()

    assert (rows, notes) == ([[[0, 23117]]] * 4, [])


def test_nodes_are_asked_only_for_what_is_needed_and_only_once(fleet: Fleet) -> None:
    node = telling({"node_info": NODE_INFO, "all_instances_info": {}})
    with _simulated(fleet, node1=node, node2=node, node3=node, node4=node) as simulated:
        _start(fleet)
        _ask(fleet, ("name", "pip", "role"))
        _ask(fleet, ("name", "admin_state"), what=QueryKind.INSTANCE)
        _ask(fleet, ("name", "status"), what=QueryKind.INSTANCE)
        before = [_asked(simulated[f"127.0.0.{index}"]) for index in range(1, 5)]
        rows, _ = _ask(fleet, ("mfree", "mtotal", "bootid"), ["&", [">", "mfree", 1000], ["==", "role", "M"]])
        after = [_asked(simulated[f"127.0.0.{index}"]) for index in range(1, 5)]

    assert before == [[], [], [], []]
    assert after == [[("node_info", [[], [["fake", {"migration_mode": "live"}]]])], [], [], []]
    assert rows == [[[0, 23117], [0, 24105], [0, NODE_INFO[0]]]]


def test_a_filter_on_a_live_field_compares_what_nodes_tell(fleet: Fleet) -> None:
    poor = [NODE_INFO[0], [], [{**RECORDED_FACTS, "memory_free": 10}]]
    with _simulated(fleet, node2=telling({"node_info": NODE_INFO}), node3=telling({"node_info": poor})):
        _start(fleet)
        rows, notes = _ask(fleet, ("name",), [">", "mfree", 1000])
        poor_rows, _ = _ask(fleet, ("name",), ["<", "mfree", 1000])

    assert (rows, poor_rows) == ([[[0, "node2.test"]]], [[[0, "node3.test"]]])
    assert "left out 2 nodes: field 'mfree', by which the filter judges, has no value there" in notes


def test_instances_have_the_state_that_their_nodes_tell(fleet: Fleet) -> None:
    config = orjson.loads(fleet.master.paths.config_data.read_bytes())
    places = {"i1": "node2", "i2": "node2", "i3": "node3", "i4": "node4"}
    config["instances"] = {name: instance_json(name, primary_node=node) for name, node in places.items()}
    fleet.master.paths.config_data.write_bytes(orjson.dumps(config))
    console = {"instance": "i1.test", "kind": "msg", "message": "Console not available"}
    told = {"all_instances_info": {"i1.test": RUNS}, "instance_console_info": {"i1.test": console}}
    other = {"all_instances_info": {"i2.test": RUNS}, "instance_console_info": {}}
    with _simulated(fleet, node2=telling(told), node3=telling(other)) as simulated:
        _start(fleet)
        rows, _ = _ask(fleet, STATES, what=QueryKind.INSTANCE)
        running, _ = _ask(fleet, ("name",), ["==", "status", "running"], QueryKind.INSTANCE)
        consoles = fleet.master.luxi(QueryInstances(("i1.test",), ("console", "oper_state")))
        asked, others = _asked(simulated["127.0.0.2"]), _asked(simulated["127.0.0.3"])

    assert rows == [
        [[0, "i1.test"], [0, "running"], [0, True], [0, 512]],
        [[0, "i2.test"], [0, "ERROR_wrongnode"], [0, True], [0, 512]],
        [[0, "i3.test"], [0, "ERROR_down"], [0, False], [3, None]],
        [[0, "i4.test"], [0, "ERROR_nodedown"], [2, None], [2, None]],
    ]
    assert running == [[[0, "i1.test"]]]
    assert consoles == ((console, True),)
    # the last query was about an instance of another node
    assert [name for name, _ in others] == ["all_instances_info"] * 2
    assert sorted(name for name, _ in asked) == ["all_instances_info"] * 3 + ["instance_console_info"]
    assert [list(body) for name, body in asked if name == "instance_console_info"] == [["i1.test"]]
    assert asked[0][1] == [["fake"], {"fake": {"migration_mode": "live"}}]


def test_exports_are_those_that_nodes_tell(fleet: Fleet) -> None:
    with _simulated(fleet, node1=telling({"export_list": ["a", "b"]}), node2=telling({"export_list": []})):
        _start(fleet)
        exports = fleet.master.luxi(QueryExports(()))

    assert exports == (("node1.test", "a"), ("node1.test", "b"), ("node3.test", None), ("node4.test", None))


def test_a_query_of_a_client_that_has_gone_is_given_up(root: Path) -> None:
    # far longer than the test has patience
    with _fleet(root, 3, limit_s=600) as fleet, _simulated(fleet, node2=silent) as simulated:
        _start(fleet)
        seen = simulated["127.0.0.2"]
        request = {"method": "Query", "args": ["node", ["mfree"], None], "version": 3000000}
        with RawCaller(fleet.master.paths.query_socket) as caller:
            caller.send(pack(json.dumps(request).encode()))
            wait_until(lambda: _asked(seen), what="the node is asked")
            # other calls do not wait for it
            assert fleet.master.luxi(QueryNodes(("node2",), ("name",))) == (("node2.test",),)
        wait_until(lambda: seen.given_up, what="the call to the node is given up")

    assert seen.given_up == ["node_info"]


def test_nodes_that_hang_do_not_take_the_turns_of_others(root: Path) -> None:
    """More nodes hang than there are connections at a time."""
    with _fleet(root, 0) as fleet:
        ips = [f"127.0.0.{number}" for number in range(2, 47)]
        names = {f"node{ip.rpartition('.')[2]}.test": ip for ip in ips}
        add_nodes(fleet.master.paths.config_data, names, master_candidate=False)
        nodes = {ip: silent if number < 40 else telling({"node_info": NODE_INFO}) for number, ip in enumerate(ips)}
        with SimulatedNodes(fleet.master.paths, fleet.port, nodes) as simulated:
            _start(fleet)
            rows, _ = _ask(fleet, ("mfree",))
            served = [len(_asked(simulated[ip])) for ip in ips[40:]]

    assert [row[0] for row in rows[41:]] == [[0, 23117]] * 5
    assert [row[0] for row in rows[:41]] == [[2, None]] * 41
    assert served == [1] * 5


def test_many_queries_that_wait_for_one_node_do_not_hold_up_those_of_others(root: Path) -> None:
    query = {"method": "Query", "args": ["node", ["mfree"], ["=", "name", "node2.test"]], "version": 3000000}
    told = telling({"node_info": NODE_INFO})
    with _fleet(root, 2, limit_s=600) as fleet, _simulated(fleet, node2=silent, node3=told) as simulated:
        _start(fleet)
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                caller = stack.enter_context(RawCaller(fleet.master.paths.query_socket))
                caller.send(pack(json.dumps(query).encode()))
            wait_until(lambda: len(_asked(simulated["127.0.0.2"])) >= 4, what="the silent node is asked")

            # a caller that has no patience without end
            with RawCaller(fleet.master.paths.query_socket) as caller:
                rows = caller.call("Query", "node", ["mfree"], ["=", "name", "node3.test"])["result"]["data"]

            asked = len(_asked(simulated["127.0.0.2"]))
    assert rows == [[[0, 23117]]]
    assert asked == 4
