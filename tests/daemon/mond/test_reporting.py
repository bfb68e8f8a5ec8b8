"""mond as a process: Ganeti's paths, collectors that hang or fail, and rhythms from confd."""

import json
import math
import shutil
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster import CHECKOUT
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import PATIENCE_S, wait_until

EXAMPLE = CHECKOUT / "deploy" / "examples" / "gantry-raid"
QUICK = {"cpu-avg-load": {"active": True, "interval": 600_000}}
RECORDED = CHECKOUT / "tests" / "data" / "mond" / "exchanges.jsonl"
TROUBLE = """
import threading
from daemons.mond.collectors.base import Collector, Measured
from daemons.mond.core.reports import ReportKind

class Common(Collector):
    INTERVAL_S = 0.2
    LIMIT_S = 0.3

class Hanging(Common):
    NAME = "hanging"
    calls = 0
    def collect(self):
        Hanging.calls += 1
        threading.Event().wait()

class Failing(Common):
    NAME = "failing"
    def collect(self):
        raise RuntimeError("no such luck")

class Odd(Common):
    NAME = "odd"
    def collect(self):
        return Measured([{1, 2}])

class Bare(Common):
    NAME = "bare"
    KIND = ReportKind.STATUS
    def collect(self):
        return Measured({})

class Huge(Common):
    NAME = "huge"
    def collect(self):
        return Measured(["x" * 2**21])

class Counting(Common):
    NAME = "counting"
    calls = 0
    def collect(self):
        self.calls += 1
        return Measured({"calls": self.calls, "hanging": Hanging.calls})

class Taken(Common):
    NAME = "load"
"""


class Node(ConfdCluster):
    """A node with confd and mond, and plug-ins of which some are no good."""

    def __init__(self, root: Path, plugins: Path) -> None:
        super().__init__(root)
        self.port = free_port()
        own = self.document["nodes"]["uuid-node1.test"]["name"]
        settings = f'[confd]\nport = {self.peer.port}\n[mond]\naddress = "{HOST}"\nport = {self.port}\n'
        self.cluster.configure(f'[cluster]\nnode_name = "{own}"\n{settings}')
        # so that two samples are there soon
        self.document["cluster"]["data_collectors"] = QUICK
        self.write()
        self.put(self.paths.ssconf_file("master_candidates_ips"), f"{HOST}\n".encode())
        install(plugins)
        self.cluster.modules["mond"] = "tests.support.fakes.pluggedmond"

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def report(self, name: str, category: str = "default") -> Any:
        status, body = self.get(f"/1/report/{category}/{name}")
        return json.loads(body) if status == 200 else status

    def data(self, name: str, category: str = "default") -> Any:
        return self.report(name, category)["data"]

    def collected(self, name: str, category: str = "default") -> Any:
        """Wait for a report without an error: a collector may have been slow, or not yet called."""
        found: list[Any] = []

        def is_collected() -> bool:
            found.append(self.data(name, category))
            return "error" not in found[-1]

        wait_until(is_collected, what=f"{name} reports", state=lambda: found[-1])
        return found[-1]

    @property
    def names(self) -> list[str]:
        return [row[0] for row in json.loads(self.get("/1/list/collectors")[1])]


def install(folder: Path) -> None:
    """The example, a package with trouble, and one that cannot be imported, as pip leaves them."""
    shutil.copytree(EXAMPLE / "gantry_raid", folder / "gantry_raid")
    (folder / "trouble.py").write_text(TROUBLE)
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["gantry.collectors"]
    for name, entries in (("gantry_raid", points), ("trouble", {"trouble": "trouble"}), ("gone", {"gone": "gone"})):
        about = folder / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {module}\n" for key, module in entries.items()]
        (about / "entry_points.txt").write_text(f"[gantry.collectors]\n{''.join(lines)}")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    plugins = tmp_path_factory.mktemp("plugins")
    with pytest.MonkeyPatch.context() as patch, Node(tmp_path_factory.mktemp("node"), plugins) as node:
        patch.setenv("MOND_PLUGINS", str(plugins))
        node.cluster.start("confd", "mond")
        yield node


@pytest.mark.parametrize(
    "exchange",
    [
        each
        for each in map(json.loads, RECORDED.read_text().splitlines())
        # lists and reports depend on the machine; the page of its server about other verbs is not ours
        if each["name"] in ("root", "v1", "v1-slash", "v2", "404", "list") or each["name"].startswith("report-unknown")
    ],
    ids=lambda each: each["name"],
)
def test_a_recorded_request_gets_the_recorded_reply(node: Node, exchange: dict[str, Any]) -> None:
    assert node.get(exchange["path"]) == (exchange["status"], exchange["body"].encode())


def test_other_verbs_are_not_known(node: Node) -> None:
    assert [node.get("/1/list/collectors", verb)[0] for verb in ("POST", "PUT", "DELETE")] == [404] * 3


def test_ganetis_collectors_come_first_in_lists_and_all_reports_are_of_the_list(node: Node) -> None:
    rows = json.loads(node.get("/1/list/collectors")[1])
    reports = json.loads(node.get("/1/report/all")[1])

    assert rows[:2] == [["cpu-avg-load", "default", 0], ["diskstats", "storage", 0]]
    assert [[each["name"], each["category"] or "default", each["kind"]] for each in reports] == rows
    keys = ["name", "version", "format_version", "timestamp", "category", "kind", "data"]
    assert all(list(each) == keys for each in reports)


def test_this_node_is_told(node: Node) -> None:
    assert node.collected("node-facts")["node"] == "node1.test"
    assert node.collected("memory")["total"] > 2**20
    assert node.collected("load")["processes"] > 1
    assert node.collected("disk-space", "storage")["status"]["code"] in (0, 4)
    assert isinstance(node.collected("commands", "daemon")["commands"], list)
    role = node.collected("node-role", "daemon")
    assert (role["role"], role["replied"], role["status"]["code"]) == ("master", 1, 0)


def test_processors_are_told_as_ganetis_balancer_reads_them(node: Node) -> None:
    # two samples are needed
    data = node.collected("cpu-avg-load")

    assert data["cpu_number"] == len(data["cpus"])
    assert math.isclose(data["cpu_total"], sum(data["cpus"]), rel_tol=0.2, abs_tol=0.2)


def test_a_collector_that_hangs_is_told_and_called_once(node: Node) -> None:
    wait_until(lambda: "hangs since" in node.data("hanging").get("error", ""), what="it is found out")
    before = node.collected("counting")["calls"]

    wait_until(lambda: node.collected("counting")["calls"] > before + 3, what="others are called again and again")

    assert node.data("hanging")["status"]["code"] == 2
    assert node.collected("counting")["hanging"] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("failing", "RuntimeError: no such luck"),
        ("odd", "not JSON serializable"),
        ("bare", "an object with a status"),
        ("huge", "at most 1048576 are possible"),
    ],
)
def test_a_collector_that_fails_has_its_error_in_its_report(node: Node, name: str, text: str) -> None:
    # one that was slow at first is told to hang
    wait_until(lambda: text in node.data(name)["error"], what="it fails", state=lambda: node.data(name))

    assert node.data(name)["status"]["code"] == 2


def test_a_package_that_cannot_be_loaded_and_a_name_that_is_taken_harm_nobody(node: Node) -> None:
    log = node.cluster.log("mond")

    assert "plugin.not_loaded plugin=gone" in log
    assert "collector.refused name=load module=trouble" in log
    assert node.names.count("load") == 1


def test_the_example_of_a_package_reports(node: Node) -> None:
    assert node.collected("raid", "storage")["status"]["code"] == 0


def test_numbers_are_told_for_prometheus(node: Node) -> None:
    node.collected("load")
    node.collected("memory")
    status, body = node.get("/metrics")
    families = {each.name: each for each in text_string_to_metric_families(body.decode())}

    assert status == 200
    assert families["gantry_node_load1"].samples[0].value >= 0
    codes = {sample.labels["collector"]: sample.value for sample in families["gantry_collector_status"].samples}
    assert codes["memory"] == 0
    assert codes["failing"] == 2
    assert set(codes) == set(node.names)


def test_the_configuration_switches_collectors_off(node: Node) -> None:
    # whatever it was asked before, mond asks again when it starts
    configure(node, {**QUICK, "diskstats": {"active": False, "interval": 5_000_000}})
    node.cluster.restart("mond")

    try:
        wait_until(lambda: "diskstats" not in node.names, what="it is off")

        assert node.report("diskstats", "storage") == 404
        assert "diskstats" not in [each["name"] for each in json.loads(node.get("/1/report/all")[1])]
    finally:
        # for the tests after it, whichever they are
        configure(node, QUICK)
        node.cluster.restart("mond")


def configure(node: Node, rhythms: dict[str, Any]) -> None:
    before = node.cluster.log("confd").count("config.loaded")
    node.document["cluster"]["data_collectors"] = rhythms
    node.write()
    wait_until(lambda: node.cluster.log("confd").count("config.loaded") > before, what="confd has it")
