"""rapid where this node is not the master: it says who is. And under a supervisor, as other daemons."""

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.paths import Paths
from common.system.program import NOT_MASTER
from common.system.running import find_daemon
from protocol.keeperd import ClusterView
from tests.cli.command import run
from tests.cli.fakekeeperd import fake_keeperd
from tests.support.etcds.playedkeeper import PlayedKeeper
from tests.support.fakes.clusterviews import barred
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.rawhttp import get, over_socket

NODES = 'luxid_patience_s = 0\n[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n'
VIEW = ClusterView(
    asked="node1.test",
    state="follow",
    master="node2.test",
    epoch=7,
    ttl_s=10.0,
    members=(barred("node3.test", 7),),
)
# seconds of a mastership that ends within a test
SHORT_S = 5.0
# beginning of a reply
STREAMING = b"HTTP/1.1 200 "


def name_master(web: Web, master: str) -> None:
    file = web.paths.ssconf_file("master_node")
    file.unlink(missing_ok=True)
    file.write_text(f"{master}\n")


@pytest.fixture
def candidate(tmp_path: Path) -> Iterator[Web]:
    with Web(tmp_path, NODES) as web:
        name_master(web, "node2.test")
        yield web


def test_a_node_that_is_not_the_master_says_who_is_until_it_becomes_the_master(candidate: Web) -> None:
    candidate.start("rapid")
    health = candidate.local.get("/3/health")
    ours, ganetis = candidate.local.get("/3/jobs"), candidate.local.get("/2/jobs")
    name_master(candidate, "node1.test")
    after = candidate.local.get("/2/jobs")

    why = "this node is not the master; node2.test is"
    found = health.json()
    assert (health.status_code, found["is_master"], found["master"], found["reason"]) == (503, False, "node2.test", why)
    assert (ours.status_code, ours.json()["detail"], ours.headers["retry-after"]) == (503, why, "5")
    found = ours.json()
    assert (found["master"], found["url"]) == ("node2.test", f"https://node2.test:{candidate.port}/3/jobs")
    assert ganetis.status_code == 503
    assert ganetis.json() == {"code": 503, "message": why, "explain": ganetis.json()["explain"]}
    # luxid does not run
    assert after.status_code == 504


def test_streams_end_when_another_node_becomes_the_master(candidate: Web) -> None:
    name_master(candidate, "node1.test")
    candidate.start("rapid")
    with over_socket(candidate) as stream:
        stream.sendall(get("/3/events"))
        wait_until(lambda: candidate.local.get("/3/health").json()["waiting"] == 1, what="the stream is there")

        name_master(candidate, "node2.test")

        while stream.recv(65536):
            pass
    assert candidate.local.get("/3/health").json()["master"] == "node2.test"


def test_it_ends_there_with_ganetis_exit_code_if_the_settings_say_so(candidate: Web) -> None:
    candidate.configure(f"only_on_master = true\n{NODES}")

    with pytest.raises(AssertionError, match=f"rapid ended with {NOT_MASTER}: .*node2.test is"):
        candidate.start("rapid")


def test_without_a_lease_there_is_no_mastership_to_show(candidate: Web) -> None:
    candidate.start("rapid")

    found = candidate.local.get("/3/mastership")

    assert (found.status_code, found.json()["code"]) == (404, "not_found")
    assert "this cluster has no lease" in found.json()["detail"]


def test_a_supervisor_keeps_it_running_and_status_tells_its_address(tmp_path: Path) -> None:
    root, port = tmp_path / "r", free_port()
    root.mkdir()
    (root / "gantry.toml").write_text(f'[rapid]\nenabled = true\naddress = "{HOST}"\nport = {port}\n')
    paths = Paths.under_root(root)
    try:
        up = run("gantry", "--root", root, "up", "--detach")
        assert up.out.splitlines()[-1].split()[:2] == ["rapid", "ready"]
        first = find_daemon(paths, "rapid")
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: (now := find_daemon(paths, "rapid")) and now.pid != first.pid, what="it runs again")
        wait_until(lambda: run("gantry", "--root", root, "status").code == 0, what="it is ready")

        status = json.loads(run("gantry", "--root", root, "status", "--output", "json").out)

        assert status["http"] == f"https://{HOST}:{port}"
        assert status["daemons"]["rapid"]["state"] == "ready"
        assert run("gantry", "--root", root, "status").out.splitlines()[-1] == f"http: https://{HOST}:{port}"
    finally:
        run("gantry", "--root", root, "down")
    assert find_daemon(paths, "rapid") is None


@pytest.mark.parametrize(("text", "code"), [("", 1), ("[rapid]\nenabled = true\n", 0)])
def test_systemd_learns_whether_it_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int
) -> None:
    import daemons.rapid.main

    (tmp_path / "gantry.toml").write_text(text)
    monkeypatch.setenv("GANTRY_ROOT", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["gantry-rapid", "--check-enabled"])

    with pytest.raises(SystemExit) as ended:
        daemons.rapid.main.main()

    assert ended.value.code == code


def test_under_a_lease_it_serves_until_the_deadline_and_streams_end_then(tmp_path: Path) -> None:
    lease = NODES.replace('"nodes"', '"etcd"')
    with Web(tmp_path, f'{lease}[etcd]\nendpoints = ["http://127.0.0.1:1"]\n') as web:
        name_master(web, "node1.test")
        web.paths.deadline_file.parent.mkdir(parents=True, exist_ok=True)
        keeper = PlayedKeeper(web.paths, "node1.test")
        web.start("rapid")
        before = web.local.get("/3/health").json()
        keeper.win(SHORT_S)
        with contextlib.ExitStack() as stack:
            streams: list[socket.socket] = []

            def is_streaming() -> bool:
                keeper.prolong(SHORT_S)
                streams.append(stack.enter_context(over_socket(web)))
                streams[-1].sendall(get("/3/events"))
                return streams[-1].recv(len(STREAMING)) == STREAMING

            wait_until(is_streaming, what="it serves")
            # nobody renews the lease any more
            while streams[-1].recv(65536):
                pass
        after = web.local.get("/3/jobs").json()

        keeper.win()
        wait_until(lambda: web.local.get("/3/health").json()["is_master"], what="it serves again")
        name_master(web, "node2.test")
        keeper.take_away()
        wait_until(lambda: web.local.get("/3/health").json()["master"] == "node2.test", what="it is known who serves")
        moved, silent = web.local.get("/3/jobs"), web.local.get("/3/mastership")
        with fake_keeperd(web.paths.keeperd_socket, VIEW):
            shown, numbers = web.local.get("/3/mastership"), web.local.get("/metrics").text

    assert (before["is_master"], before["master"]) == (False, None)
    assert silent.status_code == 503
    assert "keeperd cannot be reached" in silent.json()["detail"]
    assert (shown.json()["master"], shown.json()["epoch"]) == ("node2.test", 7)
    assert shown.json()["members"][0]["copies"] == "stale"
    assert "gantry_mastership_epoch 7.0" in numbers
    assert "this node is not the master" in after["detail"]
    assert (moved.status_code, moved.json()["master"]) == (503, "node2.test")
