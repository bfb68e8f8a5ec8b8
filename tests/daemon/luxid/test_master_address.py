"""The address of the master is brought up by the node daemon when luxid begins to serve (masterfailover.md 4)."""

import json
from pathlib import Path
from typing import Any

from protocol.wconfd.config import ReadConfig
from tests.support.machines.fleet import Fleet
from tests.support.machines.simulated import SimulatedNodes, telling
from tests.support.wait import wait_until

SETTINGS = "[ganeti]\nmaster_address = true\n"
CALL = "node_activate_master_ip"


def calls(nodes: SimulatedNodes) -> list[object]:
    seen = nodes["127.0.0.1"]
    pairs = zip(list(seen.requests), list(seen.bodies), strict=False)
    return [json.loads(body) for request, body in pairs if request.target == f"/{CALL}".encode()]


def test_it_is_brought_up(tmp_path: Path) -> None:
    with Fleet(tmp_path, 0, cluster=SETTINGS) as fleet:
        fleet.master.start("wconfd", "luxid")
        wait_until(lambda: "masterip.down" in fleet.master.log("luxid"), what="luxid has found no node daemon")
        with SimulatedNodes(fleet.master.paths, fleet.port, {"127.0.0.1": telling({CALL: None})}) as nodes:
            wait_until(lambda: "masterip.up" in fleet.master.log("luxid"), what="the address is up")
            config: Any = fleet.master.wconf(ReadConfig())

            asked = calls(nodes)

    cluster = config["cluster"]
    address = {"uuid": cluster["master_node"], "ip": cluster["master_ip"], "netmask": 32, "netdev": "lo"}
    assert asked == [[{**address, "ip_family": 2}, False]]
